"""Which system calls code in the sandbox may not make: a seccomp filter, assembled here (pure)."""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping, Sequence
from typing import Final

_ARCHITECTURE: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Looking into and taking over other processes, the kernel's own keys, programs in the kernel, mounts and namespaces,
# what has been the way out of sandboxes, and what only an administrator does. Numbers: x86-64, 64-bit ARM.
_REFUSED: Final[Mapping[str, tuple[int | None, int | None]]] = {
    **{"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272)},
    **{"pidfd_getfd": (438, 438), "process_madvise": (440, 440), "add_key": (248, 217), "request_key": (249, 218)},
    **{"keyctl": (250, 219), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282)},
    **{"io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427)},
    **{"mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97)},
    **{"setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430)},
    **{"fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442)},
    **{
        "open_by_handle_at": (304, 265),
        "kexec_load": (246, 104),
        "kexec_file_load": (320, 294),
        "reboot": (169, 142),
    },
    **{"init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "acct": (163, 89)},
    **{"swapon": (167, 224), "swapoff": (168, 225), "quotactl": (179, 60), "syslog": (103, 116), "iopl": (172, None)},
    **{"ioperm": (173, None), "settimeofday": (164, 170), "clock_settime": (227, 112), "vhangup": (153, 58)},
    **{"sethostname": (170, 161), "setdomainname": (171, 162), "modify_ldt": (154, None), "uselib": (134, None)},
}
# Objects of the whole machine that a namespace keeps apart and Landlock does not.
_REFUSED_WITHOUT_NAMESPACES: Final[Mapping[str, tuple[int | None, int | None]]] = {
    **{"shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semctl": (66, 191)},
    **{"semop": (65, 193), "semtimedop": (220, 192), "msgget": (68, 186), "msgctl": (71, 187), "msgsnd": (69, 189)},
    **{"msgrcv": (70, 188), "mq_open": (240, 180), "mq_unlink": (241, 181)},
}
# Calls that name a process, of which any but one's own could be a stranger's: by argument, what each may be.
_OF_ONES_OWN: Final[Mapping[tuple[int, int], Mapping[int, int]]] = {
    (141, 140): {0: 0, 1: 0},  # setpriority: a process, and this one
    (251, 30): {0: 1, 1: 0},  # ioprio_set: the same
    (203, 122): {0: 0},  # sched_setaffinity
    (144, 119): {0: 0},  # sched_setscheduler
    (142, 118): {0: 0},  # sched_setparam
    (314, 274): {0: 0},  # sched_setattr
}
_TRUNCATE: Final = (76, 45)
_SHMGET: Final = (29, 194)
_MOST_SHARED_BYTES: Final = 1024 * 1024
"""Of one piece of shared memory, which outlives who made it and is then nobody's."""
_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)
_SOCKET: Final = (41, 198)
_SOCKETPAIR: Final = (53, 199)
_DATAGRAMS: Final = 2
"""A bit of the kinds of sockets that a pair of them can be turned away from each other with, to any other address."""
_IOCTL: Final = (16, 29)
_PRLIMIT: Final = (302, 261)
_NAMESPACE_FLAGS: Final = 0x7E020000
# Typing into somebody's terminal.
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_UNIX: Final = 1
_ALLOWED_FAMILIES: Final = (_UNIX, 2, 10, 16)
"""Unix, internet of both versions, and what programs ask the kernel about its interfaces with."""
_X32: Final = 0x40000000

_LOAD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_JUMP_IF_AT_LEAST: Final = 0x35
_JUMP_IF_MORE: Final = 0x25
_JUMP_IF_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_FAIL_WITH: Final = 0x00050000
_NUMBER_AT: Final = 0
_ARCHITECTURE_AT: Final = 4
_ARGUMENTS_AT: Final = 16
_HIGH_HALF: Final = 4
"""How far the upper half of an argument is from the lower one, on both machines."""

Instruction = tuple[int, int, int, int]
"""Code, how many to skip when true, how many when false, operand."""


def filter_program(
    machine: str,
    *,
    has_namespaces: bool,
    allow_network: bool,
    keeps_names: bool = False,
    refuse_truncate: bool = False,
) -> bytes:
    """The filter for a machine. Without namespaces no socket can be made at all, unless the network is allowed.

    Where it is, abstract sockets are those of the machine, so there are no Unix sockets unless something else keeps
    their names apart (`keeps_names`).
    """
    place = ("x86_64", "aarch64").index(machine)
    named = _REFUSED if has_namespaces else {**_REFUSED, **_REFUSED_WITHOUT_NAMESPACES}
    refused = [number for numbers in named.values() if (number := numbers[place]) is not None]
    refused += [_TRUNCATE[place]] if refuse_truncate else []
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_IF_EQUAL, 1, 0, _ARCHITECTURE[machine]),
        _failing(errno.ENOSYS),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine == "x86_64":
        program += [(_JUMP_IF_AT_LEAST, 0, 1, _X32), _failing(errno.ENOSYS)]
    # Its arguments are behind a pointer. Libraries fall back to clone, whose arguments can be seen.
    program += _on_call(_CLONE3[place], [_failing(errno.ENOSYS)])
    program += _on_call(_CLONE[place], _if_argument(0, _JUMP_IF_ANY_BIT, _NAMESPACE_FLAGS, errno.EPERM))
    for command in (_TIOCSTI, _TIOCLINUX):
        program += _on_call(_IOCTL[place], _if_argument(1, _JUMP_IF_EQUAL, command, errno.EPERM))
    program += _on_call(_PRLIMIT[place], _unless_argument(0, (0,), errno.EPERM))
    is_apart = has_namespaces and (keeps_names or not allow_network)
    families = _ALLOWED_FAMILIES if is_apart else _ALLOWED_FAMILIES[1:] if allow_network else ()
    for half, most in ((_HIGH_HALF, 0), (0, _MOST_SHARED_BYTES)):
        body = _if_argument(1, _JUMP_IF_MORE, most, errno.ENOMEM, half)
        program += _on_call(_SHMGET[place], body)
    program += _on_call(_SOCKET[place], _unless_argument(0, families, errno.EACCES))
    if _UNIX not in families:
        program += _on_call(_SOCKETPAIR[place], _if_argument(1, _JUMP_IF_ANY_BIT, _DATAGRAMS, errno.EACCES))
    for numbers, allowed in () if has_namespaces else _OF_ONES_OWN.items():
        body = [each for at, value in allowed.items() for each in _unless_argument(at, (value,), errno.EPERM)]
        program += _on_call(numbers[place], body)
    for number in refused:
        program += [(_JUMP_IF_EQUAL, 0, 1, number), _failing(errno.EPERM)]
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _failing(number: int) -> Instruction:
    return _RETURN, 0, 0, _FAIL_WITH | number


def _on_call(number: int, body: Sequence[Instruction]) -> list[Instruction]:
    """Do `body` for one system call; afterwards its number is loaded as before."""
    whole = [*body, (_LOAD, 0, 0, _NUMBER_AT)]
    return [(_JUMP_IF_EQUAL, 0, len(whole), number), *whole]


def _if_argument(place: int, jump: int, operand: int, number: int, half: int = 0) -> list[Instruction]:
    """Fail when the low half of an argument matches, or the high one."""
    return [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * place + half), (jump, 0, 1, operand), _failing(number)]


def _unless_argument(place: int, allowed: Sequence[int], number: int) -> list[Instruction]:
    """Fail unless the low half of an argument is one of these."""
    tests = [(_JUMP_IF_EQUAL, len(allowed) - index, 0, value) for index, value in enumerate(allowed)]
    return [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * place), *tests, _failing(number)]
