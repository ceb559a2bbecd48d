def twenty_over_one_link() -> list[str]: return []
def falling_link() -> list[str]: return []
def edge_numbers() -> list[str]: return []
