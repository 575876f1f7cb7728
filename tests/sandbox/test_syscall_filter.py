"""The filter's program, run by a small interpreter of its own: the other architecture cannot be run here."""

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.sandbox.syscall_filter import filter_program, refused_calls

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CALLS = {
    "x86_64": {"clone": 56, "ioctl": 16, "prctl": 157, "socket": 41, "clone3": 435},
    "aarch64": {"clone": 220, "ioctl": 29, "prctl": 167, "socket": 198, "clone3": 435},
}
ALLOWED = 0x7FFF0000
KILLED = 0x80000000


def failed(code):
    return 0x00050000 | code


def judge(machine, number, arguments=(), audit=None):
    """What the kernel would return for this call."""
    data = struct.pack("=IIQ6Q", number, audit or AUDIT[machine], 0, *[*arguments, *[0] * 6][:6])
    program = list(struct.iter_unpack("=HBBI", filter_program(machine)))
    at = value = 0
    while True:
        code, then, otherwise, k = program[at]
        at += 1
        if code == 0x06:
            return k
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, k)
            continue
        holds = {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[code]
        at += then if holds else otherwise


machines = st.sampled_from(sorted(AUDIT))


@given(machines, st.integers(0, 600), st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_every_call_gets_the_answer_that_the_lists_give(machine, number, arguments):
    verdict = judge(machine, number, arguments)
    if number in refused_calls(machine).values():
        assert verdict == failed(errno.EPERM)
    elif number not in CALLS[machine].values():
        assert verdict == ALLOWED


@given(machines, st.integers(0, 2**32 - 1))
def test_clone_may_not_make_namespaces(machine, flags):
    verdict = judge(machine, CALLS[machine]["clone"], [flags])
    assert verdict == (failed(errno.EPERM) if flags & 0x7E020080 else ALLOWED)


@given(machines, st.integers(0, 50))
def test_sockets_of_four_families(machine, family):
    verdict = judge(machine, CALLS[machine]["socket"], [family])
    assert verdict == (ALLOWED if family in {1, 2, 10, 16} else failed(errno.EAFNOSUPPORT))


@given(machines, st.integers(0, 70), st.integers(0, 70))
def test_the_death_signal_stays_sigkill(machine, option, value):
    verdict = judge(machine, CALLS[machine]["prctl"], [option, value])
    assert verdict == (failed(0) if option == 1 and value != 9 else ALLOWED)  # not carried out, and no error


@pytest.mark.parametrize("machine", sorted(AUDIT))
def test_single_answers(machine):
    calls = CALLS[machine]
    assert judge(machine, calls["clone3"]) == failed(errno.ENOSYS)
    assert judge(machine, calls["ioctl"], [0, 0x5412]) == failed(errno.EPERM)
    assert judge(machine, calls["ioctl"], [0, 0x541C]) == failed(errno.EPERM)
    assert judge(machine, calls["ioctl"], [0, 0x5413]) == ALLOWED
    assert judge(machine, 0, audit=0x40000003) == KILLED


def test_the_other_table_of_x86_is_closed():
    assert judge("x86_64", 0x40000000 + 101) == failed(errno.ENOSYS)


def test_a_machine_without_numbers_has_no_filter():
    assert filter_program("riscv64") is None
    assert refused_calls("riscv64") == {}
