"""Submissions as people write them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy_client import Parent, ScalingRules, SubmitWarning
from argosy_client.documents import DocumentOptions, name_places, name_warnings, parse_documents, read_documents
from argosy_client.durations import duration_text, parse_duration_s
from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_core.job.reading.spec import SpecLimits, read_bag
from argosy_core.reconcile.rendering import BagTemplate, RunIdentity

OPTIONS = DocumentOptions(queue="science", job_set="first")
EXAMPLE = Path(__file__).parents[3] / "examples" / "job.yaml"

CUSTOM_EXAMPLE = EXAMPLE.with_name("custom-resource.yaml")

SUBMISSION = """\
queue: tides
jobSet: march
priority: -3
count: 4
clientId: tides-1
labels: {team: tides}
annotations: {note: "yes"}
spec:
  manifests:
    - kind: Pod
      apiVersion: v1
"""


def test_example_of_the_readme_is_read() -> None:
    """The example file is a submission of twenty jobs."""
    (draft,) = read_documents([str(EXAMPLE)], OPTIONS)

    assert (draft.queue, draft.job_set, draft.count, draft.priority) == ("science", "first", 20, 10)
    assert draft.labels == {"team": "tides"}
    manifest = json.loads(draft.manifests[0])
    assert manifest["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "256Mi"}


def test_operator_and_parent_are_read_and_an_option_wins() -> None:
    """A parent is an id, or a mapping; a job that was printed names its own parent for nobody else."""
    text = f"{SUBMISSION}operator: true\nparent: {{jobId: p, outlives: true}}\n"
    (draft,) = parse_documents(text, source="a.yaml", options=OPTIONS)
    assert (draft.operator, draft.parent) == (True, Parent(job_id="p", outlives=True))
    (draft,) = parse_documents(f"{SUBMISSION}parent: q\n", source="a.yaml", options=replace(OPTIONS, parent="r"))
    assert (draft.operator, draft.parent) == (False, Parent(job_id="r"))
    (draft,) = parse_documents(f"{SUBMISSION}id: a\nstate: failed\nparent: q\n", source="a.yaml", options=OPTIONS)
    assert draft.parent is None
    for wrong in ("[a]", "{outlives: true}"):
        with pytest.raises(InvalidRequest, match="must be a job id"):
            parse_documents(f"{SUBMISSION}parent: {wrong}\n", source="a.yaml", options=OPTIONS)


def test_example_of_an_operator_is_accepted() -> None:
    """Its pod mounts the config map of its bag."""
    (draft,) = read_documents([str(EXAMPLE.with_name("operator.yaml"))], OPTIONS)
    assert draft.operator
    bag = read_bag([manifest.encode() for manifest in draft.manifests], SpecLimits())
    assert bag.violations == ()


def test_example_with_a_custom_resource_is_accepted_and_its_names_follow() -> None:
    """What the example declares is true, and no place of it keeps the name of the manifest."""
    (draft,) = read_documents([str(CUSTOM_EXAMPLE)], OPTIONS)
    bag = read_bag([manifest.encode() for manifest in draft.manifests], SpecLimits())
    assert bag.violations == ()
    template = BagTemplate(bag.body)
    run = RunIdentity(installation="i", handle=5, ordinal=1, id_high=1, queue="science", job_set="first")
    config, widget, pod = (template.render(index, run) for index in range(3))
    (role,) = widget["spec"]["roles"]
    (worker,) = role["template"]["spec"]["containers"]
    settings = config["metadata"]["name"]
    assert (widget["spec"]["settingsFrom"], role["configMapName"]) == (settings, settings)
    assert worker["envFrom"] == [{"configMapRef": {"name": settings}}]
    assert pod["spec"]["containers"][0]["env"][0]["value"] == widget["metadata"]["name"]


@pytest.mark.parametrize(
    ("options", "place"),
    [
        (OPTIONS, ("science", "first")),
        (DocumentOptions(queue="science"), ("science", "march")),
        (DocumentOptions(), ("tides", "march")),
    ],
)
def test_options_win_over_what_documents_name(options: DocumentOptions, place: tuple[str, str]) -> None:
    """Whoever says a queue beside the file wants that queue, and not silently another."""
    (draft,) = parse_documents(SUBMISSION, source="f.yaml", options=options)
    assert (draft.queue, draft.job_set) == place


def test_fields_of_a_submission_are_read() -> None:
    """Every field that a document may have reaches the draft."""
    (draft,) = parse_documents(SUBMISSION, source="f.yaml", options=DocumentOptions())

    assert (draft.queue, draft.job_set, draft.priority, draft.count) == ("tides", "march", -3, 4)
    assert (draft.client_id, draft.labels, draft.annotations) == ("tides-1", {"team": "tides"}, {"note": "yes"})
    assert draft.manifests == ('{"kind":"Pod","apiVersion":"v1"}',)


def test_many_documents_and_snake_case_and_bare_pods_are_read() -> None:
    """A file may hold many documents, with either spelling, and Pod manifests by themselves."""
    text = SUBMISSION.replace("jobSet", "job_set").replace("clientId", "client_id")
    text += "---\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: solo}\n"

    first, second = parse_documents(text, source="f.yaml", options=OPTIONS)

    assert (first.client_id, first.count) == ("tides-1", 4)
    assert (second.queue, second.job_set, second.count) == ("science", "first", 1)
    assert json.loads(second.manifests[0])["metadata"]["name"] == "solo"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"kind": "Pod"}\n{"kind": "Pod"}', id="lines"),
        pytest.param('[{"kind": "Pod"}, {"kind": "Pod"}]', id="array"),
    ],
)
def test_json_holds_documents_one_after_another_or_in_an_array(text: str) -> None:
    """JSON files hold many documents, too."""
    drafts = parse_documents(text, source="f.json", options=OPTIONS)

    assert [draft.manifests for draft in drafts] == [('{"kind":"Pod"}',)] * 2


def test_yaml_says_what_json_can_say() -> None:
    """Dates are their text, anchors and merges are followed, and keys of the document win over merged ones."""
    text = """\
kind: Pod
metadata:
  annotations: &base {day: 2024-01-31, team: a}
  labels: {<<: *base, team: b}
"""

    (draft,) = parse_documents(text, source="f.yaml", options=OPTIONS)

    metadata = json.loads(draft.manifests[0])["metadata"]
    assert metadata == {"annotations": {"day": "2024-01-31", "team": "a"}, "labels": {"day": "2024-01-31", "team": "b"}}


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        pytest.param("queue: [a\n", ["f.yaml:2:1", "not YAML"], id="syntax"),
        pytest.param("spec: {}\n", ["f.yaml:1:1: document 1: spec", "must hold manifests"], id="no manifests"),
        pytest.param("- - a\n", ["f.yaml:1:3: document 1", "must be a mapping", "a list"], id="no mapping"),
        pytest.param(
            SUBMISSION + "prioritty: 3\n",
            ["f.yaml:12:1: document 1: prioritty", "did you mean priority?"],
            id="unknown field",
        ),
        pytest.param(SUBMISSION + "jobset: x\n", ["f.yaml:12", "did you mean jobSet?"], id="spelled as in the API"),
        pytest.param(SUBMISSION + "job_set: x\n", ["f.yaml:12", "given twice, in two spellings"], id="two spellings"),
        pytest.param(
            SUBMISSION + "queue: x\n", ["f.yaml:12:1", "'queue' is given twice (first on line 1)"], id="twice"
        ),
        pytest.param(SUBMISSION.replace("4", "0"), ["f.yaml:4:1: document 1: count", "from 1 to 100000"], id="count 0"),
        pytest.param(SUBMISSION.replace("4", "many"), ["f.yaml:4", "not a text"], id="count no number"),
        pytest.param(SUBMISSION.replace("4", "yes"), ["f.yaml:4", "not true or false"], id="count boolean"),
        pytest.param(SUBMISSION.replace("tides\n", "7\n", 1), ["f.yaml:1", "queue", "quote it"], id="queue a number"),
        pytest.param(SUBMISSION.replace('"yes"', "yes"), ["f.yaml:7", "annotations.note", "quote it"], id="boolean"),
        pytest.param(SUBMISSION.replace("kind: Pod", "kind: Job"), ["f.yaml:9:3", "hold no Pod"], id="no pod"),
        pytest.param(
            SUBMISSION.replace("- kind: Pod", "- name: x"),
            ["f.yaml:10", "spec.manifests[0].kind", "is missing"],
            id="no kind",
        ),
        pytest.param("apiVersion: v1\nkind: Job\n", ["f.yaml:2", "must be a Pod, not 'Job'"], id="bare job"),
        pytest.param("kind: Pod\nx: !!set {a}\n", ["f.yaml:2:4", "tag"], id="set"),
        pytest.param("kind: Pod\nx: .nan\n", ["f.yaml:2:4", "JSON has no word"], id="not a number"),
        pytest.param("kind: Pod\n? [a]\n: b\n", ["f.yaml:2:3", "a key must be a text"], id="key"),
        pytest.param("kind: Pod\n" + BOMB, ["f.yaml:", "values once its aliases are followed"], id="alias bomb"),
        pytest.param("kind: Pod\nx: &x [*x]\n", ["f.yaml:2", "nested deeper"], id="recursion"),
        pytest.param("x: " + "[" * 200_000, ["f.yaml:1", "nested deeper"], id="deep-flow"),
        pytest.param("- " * 200_000, ["f.yaml:1", "nested deeper"], id="deep-block"),
        pytest.param("\n# nothing\n", ["f.yaml: holds no documents"], id="empty"),
    ],
)
def test_mistake_is_named_with_its_place(text: str, parts: list[str]) -> None:
    """Errors say file, line, document and field, what is wrong and what would be right."""
    with pytest.raises(InvalidRequest) as caught:
        parse_documents(text, source="f.yaml", options=OPTIONS)

    assert all(part in caught.value.message for part in parts), caught.value.message


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        pytest.param('{"kind": "Pod"}\n{"kind": }', ["f.json:2:10", "not JSON"], id="syntax"),
        pytest.param('{"kind": "Pod", "kind": "Pod"}', ["f.json:1", "'kind' is given twice"], id="twice"),
        pytest.param('{"kind": "Pod", "x": NaN}', ["f.json:1", "NaN is not JSON"], id="not a number"),
        pytest.param("[" * 100_000, ["f.json:1", "nested too deeply"], id="deep"),
    ],
)
def test_mistake_in_json_is_named_with_its_place(text: str, parts: list[str]) -> None:
    """JSON is no worse off than YAML."""
    with pytest.raises(InvalidRequest) as caught:
        parse_documents(text, source="f.json", options=OPTIONS)

    assert all(part in caught.value.message for part in parts), caught.value.message


def test_every_wrong_document_of_every_file_is_named(tmp_path: Path) -> None:
    """One run shows all that is to be mended."""
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(SUBMISSION.replace("4", "0") + "---\nqueue: x\n")
    two.write_text(SUBMISSION + "---\nnope: 1\n")

    with pytest.raises(InvalidRequest) as caught:
        read_documents([str(one), str(two), str(tmp_path / "none.yaml")], OPTIONS)

    text = caught.value.message
    assert [
        part in text
        for part in (
            "one.yaml:4:1: document 1",
            "one.yaml:13:1: document 2",
            "two.yaml:13:1: document 2",
            "none.yaml: cannot",
        )
    ] == [True] * 4


def test_documents_without_a_queue_are_refused_when_there_is_no_default() -> None:
    """What neither the document nor the options say is missing."""
    with pytest.raises(InvalidRequest, match=r"queue: is missing.*--queue"):
        parse_documents("kind: Pod\n", source="f.yaml", options=DocumentOptions(job_set="s"))


def test_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """Binary files are named with the line where they stop being text."""
    path = tmp_path / "pod.yaml"
    path.write_bytes(b"kind: Pod\n\xff\xfe\n")

    with pytest.raises(InvalidRequest, match=r"pod.yaml:2: is not UTF-8"):
        read_documents([str(path)], OPTIONS)


@given(st.text(max_size=200), st.sampled_from(["f.yaml", "f.json"]))
def test_any_text_is_read_or_refused(text: str, source: str) -> None:
    """No text makes the reader fail in a way of its own."""
    try:
        drafts = parse_documents(text, source=source, options=OPTIONS)
    except InvalidRequest as error:
        assert error.message.startswith(source)  # noqa: PT017
    else:
        assert all(json.loads(draft.manifests[0]) is not None for draft in drafts)


def test_servers_faults_name_file_line_and_document() -> None:
    """Equal specs travel once, so the server's numbers mean nothing to whoever wrote the file."""
    text = "kind: Pod\n---\nkind: Pod\n---\nkind: Pod\nspec: {}\n"
    drafts = parse_documents(text, source="f.yaml", options=OPTIONS)
    said = InvalidRequest(
        "nothing was accepted because of 3 faults: specs[1].manifests[0].spec: is missing; items[0].queue: no",
        violations=(
            FieldViolation(field="specs[1].manifests[0].spec", description="is missing"),
            FieldViolation(field="items[1].client_id", description="'x' stands for another job in items[0]"),
            FieldViolation(field="items", description="are too many"),
        ),
    )

    placed = name_places(said, drafts)

    assert isinstance(placed, InvalidRequest)
    assert placed.message == "nothing was accepted because of 3 faults"
    assert [(violation.field, violation.description) for violation in placed.violations] == [
        ("f.yaml:6:1: document 3: spec", "is missing"),
        ("f.yaml:3:1: document 2: clientId", "'x' stands for another job in f.yaml:1:1: document 1"),
        ("items", "are too many"),
    ]


@pytest.mark.parametrize(
    ("source", "text", "place"),
    [
        pytest.param(
            "f.yaml",
            "spec:\n  manifests:\n  - kind: Pod\n    spec:\n      nodeSelecter: {a: b}\n",
            "f.yaml:5:7: document 1: spec.manifests[0].spec.nodeSelecter",
            id="submission",
        ),
        pytest.param(
            "f.yaml",
            "kind: Pod\nspec:\n  nodeSelecter:\n    a: b\n",
            "f.yaml:3:3: document 1: spec.nodeSelecter",
            id="manifest by itself",
        ),
        pytest.param(
            "f.jsonl",
            '{"kind": "Pod", "spec": {}}\n  {"kind": "Pod",\n "spec": {"nodeSelecter": {}}}',
            "f.jsonl:3:11: document 2: spec.nodeSelecter",
            id="JSON lines",
        ),
        pytest.param(
            "f.json",
            '[{"kind": "Pod", "spec": {}},\n {"kind": "Pod", "spec": {"nodeSelecter": {}}}]',
            "f.json:2:27: document 2: spec.nodeSelecter",
            id="JSON array",
        ),
    ],
)
def test_fault_of_a_manifests_field_names_its_line_and_column(source: str, text: str, place: str) -> None:
    """What only the server can tell is named by the place where the field was written."""
    drafts = parse_documents(text, source=source, options=OPTIONS)
    told = SubmitWarning(field=f"specs[{len(drafts) - 1}].manifests[0].spec.nodeSelecter", description="?")

    assert [warning.field for warning in name_warnings([told], drafts)] == [place]


def test_faults_of_drafts_that_were_not_read_from_a_file_stay_as_they_are() -> None:
    """Without a place there is nothing better than the number of the item."""
    said = InvalidRequest("no", violations=(FieldViolation(field="items[7].queue", description="no"),))
    assert name_places(said, ()) is said


def test_documents_say_whether_their_jobs_are_held() -> None:
    """The option holds all of them; anything but true or false is refused."""
    held = parse_documents(SUBMISSION + "hold: true\n", source="a.yaml", options=DocumentOptions())
    free = parse_documents(SUBMISSION, source="a.yaml", options=DocumentOptions())
    every = parse_documents(SUBMISSION + "hold: false\n", source="a.yaml", options=DocumentOptions(hold=True))
    assert [draft.hold for (draft,) in (held, free, every)] == [True, False, True]
    with pytest.raises(InvalidRequest) as refusal:
        parse_documents(SUBMISSION + "hold: 1\n", source="a.yaml", options=DocumentOptions())
    assert "hold: must be true or false, not a number" in str(refusal.value.violations)


def test_documents_name_jobs_to_run_after() -> None:
    """A list needs their success; a mapping says what they need; options win."""
    options = DocumentOptions(after=("z",), after_until="ended")
    for text, chosen, expected in (
        ("after: [a, b]", DocumentOptions(), (("a", "b"), "succeeded")),
        ("after: {jobs: [a], until: ended}", DocumentOptions(), (("a",), "ended")),
        ("after: [a]", options, (("z",), "ended")),
        ("lifetime: 0", DocumentOptions(), ((), "succeeded")),
    ):
        (draft,) = parse_documents(f"{SUBMISSION}{text}\n", source="a.yaml", options=chosen)
        assert (draft.after, draft.after_until) == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("after: a", "after: must be a list of job ids"),
        ("after: [1]", "after: must be a list of job ids"),
        ("after: {jobs: []}", "after: has the fields jobIds, at least one, and until"),
        ("after: {jobs: [a], when: now}", "after: has the fields jobIds, at least one, and until"),
        ("after: {jobIds: [a], until: begun}", "after.until: must be succeeded or ended"),
    ],
)
def test_wrong_jobs_to_run_after_are_refused(line: str, said: str) -> None:
    """The field and its line are named."""
    with pytest.raises(InvalidRequest) as refusal:
        parse_documents(f"{SUBMISSION}{line}\n", source="a.yaml", options=DocumentOptions())
    assert said in refusal.value.message


def test_durations_are_read_with_their_units() -> None:
    """Whole numbers with units; 0 needs none; what the caller says wins."""
    text = SUBMISSION + "lifetime: 0\njobSetLimit: 10\ntimeLimit: 1d2h3m4s\nestimate: 5m\n"
    (draft,) = parse_documents(text, source="a.yaml", options=DocumentOptions(estimate_s=0))
    assert (draft.lifetime_s, draft.time_limit_s, draft.estimate_s) == (0, 93_784, 0)
    assert draft.job_set_limit == 10
    (draft,) = parse_documents(text, source="a.yaml", options=DocumentOptions(job_set_limit=0))
    assert draft.job_set_limit == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("lifetime: 30", "lifetime: must be a duration, as 90s, 1h30m or 7d; a number needs its unit"),
        ("timeLimit: -5s", "timeLimit: '-5s' is not a duration"),
        ("estimate: 1.5h", "estimate: '1.5h' is not a duration"),
        ("estimate: ''", "estimate: '' is not a duration"),
        ("lifetime: false", "lifetime: must be a duration, as 90s, 1h30m or 7d; not true or false"),
        ("estimate: [1s]", "estimate: must be a duration, as 90s, 1h30m or 7d; not a list"),
    ],
)
def test_duration_that_is_none_is_named_with_its_line(line: str, said: str) -> None:
    """A number without a unit could be anything, so it is refused."""
    with pytest.raises(InvalidRequest) as caught:
        parse_documents(f"{SUBMISSION}{line}\n", source="a.yaml", options=OPTIONS)
    assert f"a.yaml:12:1: document 1: {said}" in caught.value.message


SCALING = "{min: {cpu: 500m, memory: 1Gi}, max: {cpu: 4, memory: 8Gi}, targets: {workingSet: 0.8}, movable: true}"


def test_policy_for_resizes_is_read() -> None:
    """Numbers are quantities, too; what is left out is left to the installation."""
    (draft,) = parse_documents(f"{SUBMISSION}scaling: {SCALING}\n", source="a.yaml", options=OPTIONS)
    assert draft.scaling == ScalingRules(
        least=("500m", "1Gi"), most=("4", "8Gi"), working_set_ratio=0.8, is_movable=True
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1-8", "scaling: must be a mapping"),
        ("{min: {cpu: 1}}", "scaling.min: must have cpu and memory"),
        ("{min: {cpu: [1], memory: 1Gi}}", "scaling.min.cpu: must be a quantity, as 500m or 1Gi, not a list"),
        ("{targets: 0.9}", "scaling.targets: must be a mapping"),
        ("{targets: {load: 1.5}}", "scaling.targets.load: must be a part of what the pod has"),
        ("{off: maybe}", "scaling.off"),
        ("{maximum: {}}", "scaling.maximum"),
    ],
)
def test_policy_for_resizes_that_is_none_is_named_with_its_line(text: str, said: str) -> None:
    """The field and its line are named."""
    with pytest.raises(InvalidRequest) as caught:
        parse_documents(f"{SUBMISSION}scaling: {text}\n", source="a.yaml", options=OPTIONS)
    assert "a.yaml:12:" in caught.value.message
    assert f"document 1: {said}" in caught.value.message


@given(st.integers(0, 400_000_000))
def test_duration_is_read_as_it_is_shown(seconds: int) -> None:
    """What people are shown says the same when they write it."""
    assert parse_duration_s(duration_text(seconds)) == seconds
