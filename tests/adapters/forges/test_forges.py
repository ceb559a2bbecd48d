"""The three clients hold to one protocol: each against a server that answers in its forge's documented shapes."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from reconciler.adapters.forges import shared
from reconciler.adapters.forges.shared import STATUS_WORDS
from reconciler.forge_port import Consent, Forge, Pulls, PullState, Verdict
from reconciler.ports import Conflict, Refused, Transient
from tests.adapters.forges.server import TOKEN, Answer, ForgeServer
from tests.adapters.forges.shapes import DIALECTS, SHA, Dialect, comment, comment_at, pull
from tests.builders import NOW
from tests.waiting import until

MARK = "<!-- mark -->"


@pytest.fixture(params=sorted(DIALECTS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def dialect(kind: str) -> Dialect:
    return DIALECTS[kind]


@pytest.fixture
def forge(dialect: Dialect, server: ForgeServer) -> Forge:
    return dialect.make(server.account())


def test_open_pull_requests_are_listed_and_those_of_forks_have_no_branch_here(
    forge: Forge, dialect: Dialect, server: ForgeServer
) -> None:
    wanted = (pull(7), pull(8, None, body=""), pull(9, "x", base="main", body=""))
    said = [dialect.spelt(one) for one in (wanted[0], pull(8, None, body="x" * 60_000), wanted[2])]
    server.says(f"GET {dialect.pulls}", Answer(said))
    assert forge.open_pulls() == Pulls(wanted), "nor is the text kept, which anybody may have made long"
    assert len(server.asked) == 1


def test_a_listing_has_as_many_pages_as_it_has(forge: Forge, dialect: Dialect, server: ForgeServer) -> None:
    further = {"Link": f'<{server.url}{dialect.pulls}?page=2&per_page=50>; rel="next"'}
    first = Answer([dialect.spelt(pull(number)) for number in range(1, 51)], headers=further)
    server.says(f"GET {dialect.pulls}", first, Answer([dialect.spelt(pull(51))]))
    assert [one.number for one in forge.open_pulls().those] == list(range(1, 52))
    assert [each.query.get("page", "1") for each in server.asked] == ["1", "2"]


def test_a_listing_that_anybody_can_make_longer_is_cut_and_says_so(
    forge: Forge, dialect: Dialect, server: ForgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "MOST", 60)
    further = {"Link": f'<{server.url}{dialect.pulls}?page=2&per_page=50>; rel="next"'}
    page = [dialect.spelt(pull(number, state=PullState.CLOSED)) for number in range(50)]
    server.says(f"GET {dialect.pulls}", Answer(page, headers=further))
    ended = forge.ended_pulls("placements", NOW)
    assert (len(ended.those), ended.complete) == (60, False)
    opened = forge.open_pulls()
    assert (len(opened.those), opened.complete) == (60, False)
    assert len(server.asked) == 4, "nothing further is asked for"


def test_comments_without_end_are_that_pull_request_s_trouble(
    forge: Forge, kind: str, dialect: Dialect, server: ForgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "MOST", 60)
    server.says(f"GET {dialect.user}", Answer({"id": 1, dialect.login: "bot"}))
    further = {"Link": f'<{server.url}{dialect.comments}?page=2&per_page=50>; rel="next"'}
    server.says(f"GET {dialect.comments}", Answer([comment(kind, at, "mallory", "words") for at in range(50)], headers=further))
    with pytest.raises(Refused, match="more than 60 entries"):
        forge.upsert_comment(7, MARK, MARK)


def test_it_can_be_asked_again_after_it_has_hung_up(forge: Forge, dialect: Dialect, server: ForgeServer) -> None:
    server.says(f"GET {dialect.pulls}", Answer([]))
    assert forge.open_pulls() == Pulls(())
    forge.hang_up()
    until(lambda: not server.lines)
    assert forge.open_pulls() == Pulls(())


def test_ended_ones_come_newest_first_and_no_further_back_than_asked(forge: Forge, dialect: Dialect, server: ForgeServer) -> None:
    old = NOW - timedelta(days=2)
    wanted = [pull(9, state=PullState.MERGED), pull(8, state=PullState.CLOSED), pull(7, state=PullState.CLOSED, updated_at=old)]
    further = {"Link": f'<{server.url}{dialect.pulls}?page=2&per_page=50>; rel="next"'}
    server.says(f"GET {dialect.pulls}", Answer([dialect.spelt(one) for one in wanted], headers=further), Answer([]))
    assert forge.ended_pulls("placements", NOW - timedelta(days=1)) == Pulls(tuple(wanted[:2]))
    asked = server.asked[0].query
    assert {name: asked.get(name) for name in dialect.listing} == dialect.listing


def test_one_is_opened_changed_and_closed_with_a_request_each(forge: Forge, dialect: Dialect, server: ForgeServer) -> None:
    server.says(f"POST {dialect.pulls}", Answer(dialect.spelt(pull(12)), 201))
    server.says(f"{dialect.change} {dialect.pulls}/12", Answer(dialect.spelt(pull(12))))
    assert forge.open("proposals/a/b", "placements", "Place", "why") == 12
    forge.update(12, "Place elsewhere", "because")
    forge.close(12)
    title, body = dialect.text
    (opened,) = server.sent(f"POST {dialect.pulls}")
    ends = {dialect.ends["head"]: "proposals/a/b", dialect.ends["base"]: "placements"}
    assert opened == {**ends, title: "Place", body: "why"}
    changes = server.sent(f"{dialect.change} {dialect.pulls}/12")
    assert changes == [{title: "Place elsewhere", body: "because"}, dialect.closing]
    assert len(server.asked) == 3


def test_one_that_is_open_already_is_a_conflict(forge: Forge, dialect: Dialect, server: ForgeServer) -> None:
    status, said = dialect.taken
    server.says(f"POST {dialect.pulls}", Answer(said, status))
    with pytest.raises(Conflict, match="already exists"):
        forge.open("proposals/a/b", "placements", "Place", "why")


def test_a_status_is_set_with_no_more_words_than_every_forge_takes(forge: Forge, dialect: Dialect, server: ForgeServer) -> None:
    server.says(f"POST {dialect.statuses}", Answer({"id": 1, "state": "success", "status": "success"}, 201))
    forge.set_status(SHA, "reconciler/validate", Verdict.FAILURE, "é" * 500)
    forge.set_status(SHA, "reconciler/validate", Verdict.SUCCESS, "sound")
    bad, good = server.sent(f"POST {dialect.statuses}")
    assert (bad["state"], good["state"]) == (dialect.failure, "success")
    assert "reconciler/validate" in (good.get("context"), good.get("name"))
    assert (len(bad["description"]), good["description"]) == (STATUS_WORDS, "sound")
    assert len(server.asked) == 2


def test_the_first_comment_is_made_and_later_ones_are_edits(
    forge: Forge, kind: str, dialect: Dialect, server: ForgeServer
) -> None:
    server.says(f"GET {dialect.user}", Answer({"id": 1, dialect.login: "bot"}))
    mine = comment(kind, 5, "bot", f"{MARK}\nold")
    forged = comment(kind, 4, "mallory", f"{MARK}\nforged")
    beside = comment(kind, 3, "bot", f"words\n{MARK}")
    server.says(f"GET {dialect.comments}", Answer([beside, forged]), Answer([beside, forged, mine]))
    server.says(f"POST {dialect.comments}", Answer(mine, 201))
    server.says(f"{dialect.change} {comment_at(kind, 5)}", Answer(mine))
    forge.upsert_comment(7, MARK, f"{MARK}\nold")
    forge.upsert_comment(7, MARK, f"{MARK}\nnew")
    forge.upsert_comment(7, MARK, f"{MARK}\nold")
    assert server.sent(f"POST {dialect.comments}") == [{"body": f"{MARK}\nold"}]
    assert server.sent(f"{dialect.change} {comment_at(kind, 5)}") == [{"body": f"{MARK}\nnew"}]
    assert server.made().count(f"GET {dialect.user}") == 1, "who we are does not change"


def test_a_head_is_fetched_by_the_ref_that_the_forge_keeps_for_it(forge: Forge, kind: str) -> None:
    assert forge.head_ref(7) == ("refs/merge-requests/7/head" if kind == "gitlab" else "refs/pull/7/head")


# ---- who said yes -------------------------------------------------------------------------------------------------


def test_who_approved_and_merged_on_gitea(server: ForgeServer) -> None:
    dialect = DIALECTS["gitea"]
    merged = dialect.spelt(pull(7, state=PullState.MERGED)) | {"merged_by": {"login": "carol"}}
    server.says(f"GET {dialect.pulls}/7", Answer(merged))
    reviews = [
        {"state": "APPROVED", "official": True, "dismissed": False, "user": {"login": "alice"}},
        {"state": "REQUEST_CHANGES", "official": True, "dismissed": False, "user": {"login": "alice"}},
        {"state": "APPROVED", "official": True, "dismissed": False, "user": {"login": "alice"}},
        {"state": "COMMENT", "official": False, "dismissed": False, "user": {"login": "alice"}},
        {"state": "APPROVED", "official": True, "dismissed": True, "user": {"login": "bob"}},
        {"state": "APPROVED", "official": True, "dismissed": False, "user": {"login": "dave"}},
        {"state": "REQUEST_CHANGES", "official": True, "dismissed": False, "user": {"login": "dave"}},
        {"state": "APPROVED", "official": False, "dismissed": False, "user": {"login": "mallory"}},
        {"state": "REQUEST_CHANGES", "official": False, "dismissed": False, "user": {"login": "alice"}},
        {"state": "REQUEST_REVIEW", "official": False, "dismissed": False, "user": None},
    ]
    server.says(f"GET {dialect.pulls}/7/reviews", Answer(reviews, headers={"X-Total-Count": str(len(reviews))}))
    assert dialect.make(server.account()).consent(7) == Consent(("alice",), "carol")


def test_who_approved_and_merged_on_github(server: ForgeServer) -> None:
    dialect = DIALECTS["github"]
    server.says(
        f"GET {dialect.pulls}/7", Answer(dialect.spelt(pull(7, state=PullState.MERGED)) | {"merged_by": {"login": "carol"}})
    )
    said = [
        ("APPROVED", "alice"),
        ("COMMENTED", "alice"),
        ("DISMISSED", "bob"),
        ("APPROVED", "dave"),
        ("CHANGES_REQUESTED", "dave"),
    ]
    reviews = [{"id": at, "state": state, "user": {"login": who}} for at, (state, who) in enumerate(said)]
    server.says(f"GET {dialect.pulls}/7/reviews", Answer([*reviews, {"id": 99, "state": "APPROVED", "user": None}]))
    assert dialect.make(server.account()).consent(7) == Consent(("alice",), "carol")


def test_who_approved_and_merged_on_gitlab(server: ForgeServer) -> None:
    dialect = DIALECTS["gitlab"]
    merged = dialect.spelt(pull(7, state=PullState.MERGED)) | {"merge_user": {"username": "carol"}}
    server.says(f"GET {dialect.pulls}/7", Answer(merged))
    server.says(
        "GET /api/v4/projects/1/merge_requests/7/approvals", Answer({"iid": 7, "approved_by": [{"user": {"username": "alice"}}]})
    )
    assert dialect.make(server.account()).consent(7) == Consent(("alice",), "carol")


def test_an_app_of_github_finds_its_comment_without_a_name(server: ForgeServer) -> None:
    dialect = DIALECTS["github"]
    server.says(f"GET {dialect.user}", Answer({"message": "Resource not accessible by integration"}, 403))
    own = comment("github", 5, "hub[bot]", f"{MARK}\nold")
    own["user"]["type"] = "Bot"
    server.says(f"GET {dialect.comments}", Answer([comment("github", 4, "mallory", f"{MARK}\nforged"), own]))
    server.says(f"PATCH {comment_at('github', 5)}", Answer(own))
    dialect.make(server.account()).upsert_comment(7, MARK, f"{MARK}\nnew")
    assert server.made()[-1] == f"PATCH {comment_at('github', 5)}"


def test_a_status_that_gitlab_has_already_is_no_error(server: ForgeServer) -> None:
    dialect = DIALECTS["gitlab"]
    words = {"message": "Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition)"}
    server.says(f"POST {dialect.statuses}", Answer(words, 400))
    dialect.make(server.account()).set_status(SHA, "x", Verdict.PENDING, "reading")
    server.says(f"POST {dialect.statuses}", Answer({"message": "state does not have a valid value"}, 400))
    with pytest.raises(Refused, match="valid value"):
        dialect.make(server.account()).set_status(SHA, "x", Verdict.PENDING, "reading")


def test_a_pull_request_on_gitea_that_was_pushed_to_no_branch_has_no_head_here(server: ForgeServer) -> None:
    dialect = DIALECTS["gitea"]
    said = dialect.spelt(pull(7))
    said["head"] |= {"label": "", "ref": "refs/pull/7/head"}
    server.says(f"GET {dialect.pulls}", Answer([said]))
    assert [one.head for one in dialect.make(server.account()).open_pulls().those] == [None]


def test_a_fork_that_is_gone_is_a_fork(server: ForgeServer) -> None:
    for kind, gone in {"gitea": {"repo_id": -1, "repo": None}, "github": {"repo": None}}.items():
        dialect = DIALECTS[kind]
        said = dialect.spelt(pull(7))
        said["head"] |= gone
        server.says(f"GET {dialect.pulls}", Answer([said]))
        assert [one.head for one in dialect.make(server.account()).open_pulls().those] == [None], kind
    dialect = DIALECTS["gitlab"]
    server.says(f"GET {dialect.pulls}", Answer([dialect.spelt(pull(7)) | {"source_project_id": None}]))
    assert [one.head for one in dialect.make(server.account()).open_pulls().those] == [None]


# ---- what goes wrong ----------------------------------------------------------------------------------------------

FAILURES: dict[str, tuple[Answer, type[Exception], str]] = {
    "a token that is not known": (Answer({"message": "Bad credentials"}, 401), Refused, "401.*valid token"),
    "too few rights": (
        Answer({"message": "token does not have at least one of required scope(s)"}, 403),
        Refused,
        "403.*right to",
    ),
    "no such repository": (Answer({"message": "Not Found"}, 404), Refused, "404.*forge.repository"),
    "a server in trouble": (Answer({"message": "database is locked"}, 500), Transient, "500.*database is locked"),
    "a proxy without its server": (Answer(b"<html>Bad Gateway</html>", 502, {"Content-Type": "text/html"}), Transient, "502"),
    "too many requests": (Answer({"message": "Too Many Requests"}, 429, {"Retry-After": "3600"}), Transient, "429"),
    "a limit on what one may ask": (
        Answer({"message": "API rate limit exceeded for user ID 1."}, 403, {"X-RateLimit-Remaining": "0"}),
        Transient,
        "rate limit",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_what_a_failure_means(forge: Forge, dialect: Dialect, server: ForgeServer, case: str) -> None:
    answer, error, words = FAILURES[case]
    server.says(f"GET {dialect.pulls}", answer)
    server.says(f"POST {dialect.pulls}", answer)
    with pytest.raises(error, match=words):
        forge.open_pulls()
    with pytest.raises(error, match=words):
        forge.open("a", "b", "c", "d")
    assert len(server.asked) == 2, "it is not tried again at once"


def test_words_of_a_forge_never_have_the_token(forge: Forge, dialect: Dialect, server: ForgeServer) -> None:
    server.says(f"GET {dialect.pulls}", Answer({"message": f"no such token: {TOKEN}"}, 400))
    with pytest.raises(Refused, match=r"no such token: \*\*\*"):
        forge.open_pulls()
    assert TOKEN not in repr(server.account())


def test_an_answer_that_is_no_json_is_tried_again_later(forge: Forge, dialect: Dialect, server: ForgeServer) -> None:
    for body in (b"<html>", b'{"number": 7}', b'[{"number": 7}]'):
        server.says(f"GET {dialect.pulls}", Answer(body, 200))
        with pytest.raises(Transient):
            forge.open_pulls()


def test_no_answer_is_tried_again_later(dialect: Dialect, server: ForgeServer) -> None:
    account = type(server.account())("http://127.0.0.1:9", "ml/jobs", TOKEN)
    calls: list[Callable[[Forge], object]] = [lambda forge: forge.open_pulls(), lambda forge: forge.upsert_comment(7, MARK, MARK)]
    for call in calls:
        with pytest.raises(Transient, match="no answer"):
            call(dialect.make(account))


def test_the_token_goes_where_it_should(forge: Forge, dialect: Dialect, server: ForgeServer) -> None:
    server.says(f"GET {dialect.pulls}", Answer([]))
    forge.open_pulls()
    name, before = dialect.header
    given = {key.lower(): value for key, value in server.asked[0].headers.items()}
    assert given[name.lower()] == f"{before}{TOKEN}"


def test_the_token_does_not_follow_a_redirect(forge: Forge, dialect: Dialect, server: ForgeServer) -> None:
    elsewhere = server.url.replace("127.0.0.1", "localhost")
    server.says("GET /stolen", Answer([]))
    for status in (301, 302, 307):
        server.says(f"GET {dialect.pulls}", Answer({}, status, {"Location": f"{elsewhere}/stolen"}))
        with pytest.raises((Refused, Transient)):
            forge.open_pulls()
    assert set(server.made()) == {f"GET {dialect.pulls}"}
