"""Talks to a server through the client that was generated from its document.

A generated client raises an error for a value that is in no enumeration and for a field that is missing.
"""

import importlib
import sys

sys.path.insert(0, sys.argv[1])

from redrive_client import Client
from redrive_client.api.partitions import partitions_backfill, partitions_list
from redrive_client.api.plans import plans_apply, plans_list, plans_new, plans_show, plans_undo, plans_units
from redrive_client.api.queues import queues_pause
from redrive_client.api.runs import runs_list, runs_retry, runs_show, runs_submit
from redrive_client.api.why import why
from redrive_client.models import BackfillRequest, BulkOutcome, ItemExplanation
from redrive_client.models import PartitionExplanation, RunExplanation, SampleExplanation
from redrive_client.models import NewPlanRequest, NewRunBody, PauseRequest, PlanApplyRequest, PlanOrderRequest, ProblemDetails, RunAction, SubmissionView, SubmittedView

client = Client(base_url=sys.argv[2])


def check(answer, status, kind):
    assert answer.status_code == status, (answer.status_code, answer.content)
    assert isinstance(answer.parsed, kind), (kind, answer.content)
    return answer.parsed


run = NewRunBody(queue="fresh", payload={"n": 1})
new = check(runs_submit.sync_detailed(client=client, body=run, idempotency_key="k"), 201, SubmittedView)
again = check(runs_submit.sync_detailed(client=client, body=run, idempotency_key="k"), 200, SubmittedView)
assert (new.outcome, again.outcome, new.id) == ("accepted", "duplicate", again.id), (new, again)
many = check(runs_submit.sync_detailed(client=client, body=[run, run]), 200, SubmissionView)
assert many.accepted == 2, many
other = NewRunBody(queue="fresh", payload={"n": 2})
conflict = runs_submit.sync_detailed(client=client, body=other, idempotency_key="k")
assert check(conflict, 409, ProblemDetails).type_ == "urn:redrive:problem:idempotency-key-conflict"
missing = check(runs_show.sync_detailed(client=client, id=999_999), 404, ProblemDetails)
assert missing.type_ == "urn:redrive:problem:not-found", missing
assert runs_show.sync(client=client, id=new.id).payload == {"n": 1}
assert runs_list.sync(client=client, queue="fresh", data=True).items[0].payload == {"n": 1}
assert "payload" not in runs_list.sync(client=client, queue="fresh").items[0].to_dict()
assert runs_retry.sync(client=client, body=RunAction(ids=[1], dry_run=True)).count == 1
assert queues_pause.sync(client=client, queue="fresh", body=PauseRequest(reason="tired")).changed

retry = NewPlanRequest.from_dict({"kind": "run", "action": "retry", "queue": "work"})
draft = check(plans_new.sync_detailed(client=client, body=retry), 201, BulkOutcome)
assert (draft.is_open, draft.done, draft.left) == (True, 0, 9), draft
assert plans_show.sync(client=client, id=draft.plan).status == "draft"
assert plans_apply.sync(client=client, id=draft.plan, body=PlanApplyRequest(canary=1)).settings == "canary 1, abort-if 20%"
assert plans_undo.sync(client=client, id=draft.plan, body=PlanOrderRequest()).status == "undone"
assert plans_list.sync(client=client).items[0].total == 9
assert plans_units.sync(client=client, id=draft.plan, limit=2).items[1].state == "error, given up"
done = runs_retry.sync(client=client, body=RunAction(queue="work"))
assert (done.done, len(done.changes)) == (9, 9), done

day = partitions_list.sync(client=client).items[0]
units = {
    f"run:{new.id}": RunExplanation,
    "item:1": ItemExplanation,
    "sample:1": SampleExplanation,
    f"partition:{day.source}/{day.customer_id}/{day.query_name}/{day.logical_date}": PartitionExplanation,
}
for unit, kind in units.items():
    told = check(why.sync_detailed(client=client, unit=unit), 200, kind)
    assert told.unit.startswith(unit) and told.next_.because, told

days = dict(source="ads", customers=["1234"], queries=["daily"], since="2026-03-01", until="2026-03-02")
dry = BackfillRequest(**days, dry_run=True)
expected = check(partitions_backfill.sync_detailed(client=client, body=dry), 200, BulkOutcome)
real = BackfillRequest(**days)
done = check(partitions_backfill.sync_detailed(client=client, body=real), 200, BulkOutcome)
assert (expected.count, done.count) == (2, 2), (expected, done)

lists = """
    dead_letters.dead_letters_list dead_letters.dead_letters_causes journal.journal_list partitions.partitions_list
    partitions.partitions_readable pipelines.pipelines_list queues.queues_list queues.queues_stats runs.runs_list
    uploads.uploads_list policies.policies_list overview.overview_show doctor.doctor
"""
for name in lists.split():
    module = importlib.import_module(f"redrive_client.api.{name}")
    answer = module.sync_detailed(client=client)
    assert answer.status_code == 200 and answer.parsed is not None, (name, answer.content)
    rows = answer.parsed if isinstance(answer.parsed, list) else getattr(answer.parsed, "items", [1])
    assert rows, name
