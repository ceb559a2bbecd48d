"""From the bytes of a file that a person wrote to a value of the model: the one place where loader, schema, model and
credential check meet."""
