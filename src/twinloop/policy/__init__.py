"""Policies: who decides which task runs where, and when."""

from typing import TYPE_CHECKING

from twinloop._deferred import defer_imports

if TYPE_CHECKING:
    from twinloop.policy.batch import (
        Conservative,
        Easy,
        EasyTime,
        FairShare,
        Fcfs,
        Ljf,
        Priority,
        Sjf,
    )
    from twinloop.policy.decisions import Decision, Kill, Place, Preempt, Reserve, SetState, Wake
    from twinloop.policy.filter_scheduler import (
        BaselineIc1,
        BestFit,
        Fifo,
        Filter,
        Filters,
        FirstFit,
        PackIc,
        Random,
        RoundRobin,
        SpreadIc,
        SpreadVcpu,
        Weighers,
        WorstFit,
    )
    from twinloop.policy.interface import Policy, View
    from twinloop.policy.native import BuiltIn
    from twinloop.policy.registry import POLICIES, AnyPolicy, policies, policy, resolve

__all__ = [
    "POLICIES",
    "AnyPolicy",
    "BaselineIc1",
    "BestFit",
    "BuiltIn",
    "Conservative",
    "Decision",
    "Easy",
    "EasyTime",
    "FairShare",
    "Fcfs",
    "Fifo",
    "Filter",
    "Filters",
    "FirstFit",
    "Kill",
    "Ljf",
    "PackIc",
    "Place",
    "Policy",
    "Preempt",
    "Priority",
    "Random",
    "Reserve",
    "RoundRobin",
    "SetState",
    "Sjf",
    "SpreadIc",
    "SpreadVcpu",
    "View",
    "Wake",
    "Weighers",
    "WorstFit",
    "policies",
    "policy",
    "resolve",
]

defer_imports(__name__)
