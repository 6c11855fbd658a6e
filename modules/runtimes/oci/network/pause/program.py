"""The program of a pod's first process: it waits for SIGTERM, and does nothing else (as Kubernetes' `pause`).

It is a static executable of some 400 bytes that edgecore writes itself, so that the process needs no library, no file
and no program of the machine. Translated into C it is

    prctl(PR_SET_DUMPABLE, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0)
        while (rt_sigtimedwait(&awaited, NULL, NULL, 8) == -EINTR);
    exit_group(0);

where the filter leaves rt_sigtimedwait and exit_group, and `awaited` is SIGTERM and SIGINT. Its caller blocks
these two, as the kernel keeps signals from the first process of a namespace that it neither blocks nor handles, and
ignores SIGCHLD, so that the kernel itself reaps orphans. References: elf(5), seccomp(2), pid_namespaces(7).
"""

import signal
import struct
from typing import Final, NamedTuple

from modules.runtimes.oci.network.pause.elf import content_address, executable


class _Machine(NamedTuple):
    """The differences between processors, from the kernel's headers."""

    elf: int
    """e_machine."""
    flags: int
    """e_flags."""
    bits: int
    audit: int
    """AUDIT_ARCH_*."""
    wait: int
    """Number of rt_sigtimedwait."""
    end: int
    """Number of exit_group."""
    code: str
    """The instructions in hexadecimal; `_data` is behind them, and they find it relative to themselves."""


_X86_64: Final = _Machine(
    62, 0, 64, 0xC000003E, 128, 231,
    "b89d000000 bf04000000 31f6 0f05"  # mov eax, 157; mov edi, 4; xor esi, esi; syscall
    "b89d000000 bf16000000 be02000000 488d1534000000 0f05"  # the same with 22, 2, lea rdx, [filter program]
    "85c0 751d"  # test eax, eax; jne exit
    "b880000000 488d3d1a000000 31f6 31d2 41ba08000000 0f05"  # wait: 128, [signals], 0, 0, 8
    "83f8fc 74e3"  # cmp eax, -4; je wait
    "b8e7000000 31ff 0f05",  # exit: 231, 0
)  # fmt: skip
_AARCH64: Final = _Machine(
    183, 0, 64, 0xC00000B7, 137, 94,
    "e81480d2 800080d2 010080d2 010000d4"  # mov x8, #167; mov x0, #4; mov x1, #0; svc #0
    "c00280d2 410080d2 02020010 010000d4"  # mov x0, #22; mov x1, #2; adr x2, filter program; svc #0
    "200100b5"  # cbnz x0, exit
    "281180d2 40010010 010080d2 020080d2 030180d2 010000d4"  # wait: 137, signals, 0, 0, 8
    "1f1000b1 20ffff54"  # cmn x0, #4; b.eq wait
    "c80b80d2 000080d2 010000d4",  # exit: 94, 0
)  # fmt: skip
_ARM: Final = _Machine(
    40, 0x05000000, 32, 0x40000028, 177, 248,
    "ac70a0e3 0400a0e3 0010a0e3 000000ef"  # mov r7, #172; mov r0, #4; mov r1, #0; svc #0
    "1600a0e3 0210a0e3 3c208fe2 000000ef"  # mov r0, #22; mov r1, #2; adr r2, filter program; svc #0
    "000050e3 0700001a"  # cmp r0, #0; bne exit
    "b170a0e3 20008fe2 0010a0e3 0020a0e3 0830a0e3 000000ef"  # wait: 177, signals, 0, 0, 8
    "040070e3 f7ffff0a"  # cmn r0, #4; beq wait
    "f870a0e3 0000a0e3 000000ef",  # exit: 248, 0
)  # fmt: skip
_RISCV64: Final = _Machine(
    243, 0, 64, 0xC00000F3, 137, 94,
    "9308700a 13054000 93050000 73000000"  # li a7, 167; li a0, 4; li a1, 0; ecall
    "13056001 93052000 17060000 13068604 73000000"  # li a0, 22; li a1, 2; la a2, filter program; ecall
    "63140502"  # bnez a0, exit
    "93089008 17050000 1305c502 93050000 13060000 93068000 73000000"  # wait: 137, signals, 0, 0, 8
    "9302c0ff e30055fe"  # li t0, -4; beq a0, t0, wait
    "9308e005 13050000 73000000",  # exit: 94, 0
)  # fmt: skip
_MACHINES: Final = {
    "x86_64": _X86_64,
    "aarch64": _AARCH64,
    "armv8l": _ARM,
    "armv7l": _ARM,
    "armv6l": _ARM,
    "riscv64": _RISCV64,
}
"""By the name of `uname -m`."""

AWAITED: Final = (signal.SIGTERM, signal.SIGINT)

_SIGNALS_BYTES: Final = 8

_LOAD_WORD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_JUMP_IF_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # SECCOMP_RET_ALLOW; SECCOMP_RET_ERRNO with EPERM
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data


def pause_program(machine: str) -> bytes | None:
    """Return the executable for a processor; None for an unsupported one.

    Args:
        machine: its name, as `uname -m` prints it.
    """
    found = _MACHINES.get(machine)
    if found is None:
        return None
    code = bytes.fromhex(found.code)
    data = _data(found, content_address(found.bits) + len(code))
    return executable(found.elf, found.flags, found.bits, code + data)


def _data(machine: _Machine, address: int) -> bytes:
    """Return the awaited signals, the filter's `struct sock_fprog` and the filter."""
    signals = struct.pack("<Q", sum(1 << (number - 1) for number in AWAITED))
    instructions = _filter(machine)
    is_64 = machine.bits == 64
    program_bytes = 16 if is_64 else 8
    program = struct.pack(
        "<H6xQ" if is_64 else "<H2xI", len(instructions) // 8, address + _SIGNALS_BYTES + program_bytes
    )
    return signals + program + instructions


def _filter(machine: _Machine) -> bytes:
    """Return the two system calls that are left to the process, in classic BPF."""
    return b"".join(
        struct.pack("<HBBI", *each)
        for each in (
            (_LOAD_WORD, 0, 0, _ARCHITECTURE),
            (_JUMP_IF_EQUAL, 0, 3, machine.audit),
            (_LOAD_WORD, 0, 0, _NUMBER),
            (_JUMP_IF_EQUAL, 2, 0, machine.wait),
            (_JUMP_IF_EQUAL, 1, 0, machine.end),
            (_RETURN, 0, 0, _REFUSE),
            (_RETURN, 0, 0, _ALLOW),
        )
    )
