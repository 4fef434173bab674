"""The vendor's names of stall reasons, shortened and explained."""

from __future__ import annotations

from aiflame.resolve.device.stall_reasons import MEANINGS, NO_STALLS, VENDORS, meaning, short


def test_vendors_names_become_short() -> None:
    assert short("smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued") == "long_scoreboard"
    assert short("smsp__pcsamp_warps_issue_stalled_not_selected") == "not_selected"
    assert short("smsp__pcsamp_warps_issue_stalled_not_selected_not_issued") == "not_selected"
    assert short("something_new") == "something_new"
    assert short("") == "unknown"


def test_reasons_are_explained_where_we_know_them() -> None:
    assert "memory" in meaning("long_scoreboard")
    assert meaning("something_new") == ""
    assert all(MEANINGS.values())


def test_amds_names_become_short_too() -> None:
    assert short("ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_ARBITER_WIN_EX_STALL") == "arbiter_win_ex_stall"
    assert meaning("arbiter_win_ex_stall").startswith("was chosen")


def test_a_reason_has_one_vendor() -> None:
    assert VENDORS.keys() == MEANINGS.keys()
    assert (VENDORS["long_scoreboard"], VENDORS["waitcnt"]) == ("NVIDIA", "AMD")
    assert set(VENDORS) > NO_STALLS
