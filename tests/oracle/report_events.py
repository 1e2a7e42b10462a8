# SPDX-License-Identifier: Apache-2.0
"""Event files by TensorBoard's own messages and record writer, for tests/report/report_series.c.

    python tests/oracle/report_events.py            writes fixtures/report/events.tfevents
    python tests/oracle/report_events.py FILE       reads a file as TensorBoard does and prints its scalars

Needs the package tensorboard (2.21)."""
import io
import os
import sys

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

VALUES = [("loss/train", 0, 2.5), ("loss/train", 1, 0.1), ("loss/train", 300, -1e-3), ("\u03b7", 70000, 1e30)]
START, STEP = 1.7e9, 0.25


def make(path):
    out = io.BytesIO()
    writer = RecordWriter(out)
    writer.write(event_pb2.Event(wall_time=START + STEP, file_version="brain.Event:2").SerializeToString())
    for i, (name, step, value) in enumerate(VALUES):
        summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=name, simple_value=value)])
        event = event_pb2.Event(wall_time=START + (i + 1) * STEP, step=step, summary=summary)
        writer.write(event.SerializeToString())
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(out.getvalue())


def show(path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(path)
    events.Reload()
    for tag in events.Tags()["scalars"]:
        for e in events.Scalars(tag):
            print(tag, e.step, e.wall_time, e.value)


if len(sys.argv) > 1:
    show(sys.argv[1])
else:
    make(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures", "report", "events.tfevents"))
