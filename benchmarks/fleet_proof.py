"""Whether `tfgpu fleet` finds what is planted in large fleets, and invents nothing in healthy ones.

    python benchmarks/fleet_proof.py [--nodes 10000] [--seeds 20]

For each seed two fleets of generated reports (tests/fleet/making.py: one to four types of nodes, with all that differs
between healthy nodes by nature), each node with a report of the doctor and a result of `tfgpu bench matpow`. In one of
them 12 oddities of different kinds are planted on one to four nodes each; the other is clean. An oddity is found when
groups that name its cause list every one of its nodes. A group is invented when it lists a node for what nothing that
was planted there accounts for; of the clean fleet, every group is. `pytest -m full tests/fleet` tests the same.
Writes benchmarks/results/fleet_proof.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "fleet_proof.json"
sys.path.insert(0, str(ROOT))
from tests.fleet.making import fleet  # noqa: E402
from tests.fleet.test_fleet_proof import PLANTED, invented, judged, missed  # noqa: E402


def main() -> int:
    """Try all seeds; the exit code is 1 when something is missed or invented."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    rows, planted, found = [], Counter[str](), Counter[str]()
    for seed in range(1, options.seeds + 1):
        started = time.process_time()
        made = fleet(seed, options.nodes, PLANTED)
        seen = judged(made)
        lost, extra = missed(made, seen), invented(made, seen)
        planted.update(made.planted.keys())
        found.update(made.planted.keys() - set(lost))
        odd, groups = sum(map(len, made.planted.values())), len(seen.groups)
        del made
        clean = judged(fleet(seed, options.nodes))
        rows.append(
            {
                "seed": seed,
                "odd_nodes": odd,
                "groups": groups,
                "missed": lost,
                "invented": extra,
                "clean_groups": [f"{group.id}: {group.title}" for group in clean.groups],
                "unreadable": len(seen.unreadable) + len(clean.unreadable),
            }
        )
        print(f"{rows[-1]} ({time.process_time() - started:.0f} s)", file=sys.stderr)
        RESULTS.write_text(
            json.dumps(
                {
                    "date": date.today().isoformat(),
                    "nodes": options.nodes,
                    "fleets": 2 * seed,
                    "planted": sum(planted.values()),
                    "found": sum(found.values()),
                    "invented": sum(len(row["invented"]) for row in rows),
                    "groups_of_clean_fleets": sum(len(row["clean_groups"]) for row in rows),
                    "by_oddity": {name: f"{found[name]} of {many}" for name, many in sorted(planted.items())},
                    "rows": rows,
                },
                indent=1,
            )
            + "\n"
        )
    print(RESULTS.read_text().partition('"rows"')[0])
    wrong = any(row["missed"] or row["invented"] or row["clean_groups"] for row in rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
