"""The system calls that the profile RuntimeDefault allows: the set of Docker, podman and containerd.

System calls that no container needs, or that containers have escaped with, stay denied: io_uring, keyrings,
userfaultfd, kexec, modules, mounts, pivot_root. crun and runc skip names that the installed libseccomp does not know.
"""

from typing import Final

_LINUX_2: Final = """
    access chdir chmod chown chown32 close creat dup dup2 dup3 faccessat fadvise64 fadvise64_64 fallocate fchdir fchmod
    fchmodat fchown fchown32 fchownat fcntl fcntl64 fdatasync flock fstat fstat64 fstatat64 fstatfs fstatfs64 fsync
    ftruncate ftruncate64 futimesat getcwd getdents getdents64 lchown lchown32 link linkat _llseek lseek lstat lstat64
    mkdir mkdirat mknod mknodat name_to_handle_at newfstatat open openat readlink readlinkat rename renameat rmdir stat
    stat64 statfs statfs64 symlink symlinkat sync sync_file_range syncfs truncate truncate64 umask unlink unlinkat utime
    utimensat utimes
    fgetxattr flistxattr fremovexattr fsetxattr getxattr lgetxattr listxattr llistxattr lremovexattr lsetxattr
    removexattr setxattr
    ioctl pipe pipe2 pread64 preadv pwrite64 pwritev read readahead readv sendfile sendfile64 splice tee vmsplice write
    writev io_cancel io_destroy io_getevents io_setup io_submit ioprio_get ioprio_set
    epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_wait epoll_wait_old eventfd eventfd2
    fanotify_mark inotify_add_watch inotify_init inotify_init1 inotify_rm_watch _newselect poll ppoll pselect6 select
    signalfd signalfd4 timerfd_create timerfd_gettime timerfd_settime
    accept accept4 bind connect getpeername getsockname getsockopt listen recv recvfrom recvmmsg recvmsg send sendmmsg
    sendmsg sendto setsockopt shutdown socketcall socketpair
    ipc mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd semctl semget
    semop semtimedop shmat shmctl shmdt shmget
    brk madvise mincore mlock mlockall mmap mmap2 mprotect mremap msync munlock munlockall munmap remap_file_pages
    execve exit exit_group fork vfork wait4 waitid waitpid futex get_robust_list set_robust_list get_thread_area
    set_thread_area set_tid_address gettid getpgid getpgrp getpid getppid getsid setpgid setsid prctl uname sysinfo
    capget capset getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getresgid getresgid32
    getresuid getresuid32 getuid getuid32 setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32
    setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 setuid setuid32
    getcpu getpriority getrlimit getrusage prlimit64 setpriority setrlimit times ugetrlimit sched_get_priority_max
    sched_get_priority_min sched_getaffinity sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity
    sched_setparam sched_setscheduler sched_yield
    alarm kill pause restart_syscall rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
    rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sigaltstack sigprocmask sigreturn tgkill tkill
    adjtimex clock_adjtime clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time
    timer_create timer_delete timer_getoverrun timer_gettime timer_settime
"""

BY_KERNEL: Final = {
    "2.6": _LINUX_2,
    "3.14": "sched_getattr sched_setattr",
    "3.15": "renameat2",
    "3.17": "getrandom membarrier memfd_create seccomp",
    "3.19": "execveat",
    "4.4": "mlock2",
    "4.5": "copy_file_range",
    "4.6": "preadv2 pwritev2",
    "4.8": "pkey_alloc pkey_free pkey_mprotect",
    "4.11": "statx",
    "4.18": "io_pgetevents rseq",
    "5.1": """
        pidfd_send_signal
        clock_adjtime64 clock_getres_time64 clock_gettime64 clock_nanosleep_time64 futex_time64 io_pgetevents_time64
        mq_timedreceive_time64 mq_timedsend_time64 ppoll_time64 pselect6_time64 recvmmsg_time64 rt_sigtimedwait_time64
        sched_rr_get_interval_time64 semtimedop_time64 timer_gettime64 timer_settime64 timerfd_gettime64
        timerfd_settime64 utimensat_time64
    """,
    "5.3": "pidfd_open",
    "5.6": "openat2",
    "5.8": "faccessat2",
    "5.9": "close_range",
    "5.11": "epoll_pwait2",
    "5.13": "landlock_add_rule landlock_create_ruleset landlock_restrict_self",
    "5.14": "memfd_secret",
    "5.15": "process_mrelease",
    "5.16": "futex_waitv",
    "6.4": "riscv_hwprobe",
    "6.5": "cachestat",
    "6.6": "fchmodat2 map_shadow_stack",
    "6.7": "futex_requeue futex_wait futex_wake",
    "6.8": "listmount lsm_get_self_attr lsm_list_modules lsm_set_self_attr statmount",
    "6.10": "mseal",
    "6.11": "uretprobe",
    "6.13": "getxattrat listxattrat removexattrat setxattrat",
}
"""Allowed with any argument, by the first kernel that has them."""

ALLOWED: Final = tuple(" ".join(BY_KERNEL.values()).split())

BY_CAPABILITY: Final = {
    "SYS_ADMIN": (
        "bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount mount_setattr move_mount "
        "open_tree perf_event_open quotactl quotactl_fd setdomainname sethostname setns syslog umount umount2 unshare"
    ),
    "SYS_CHROOT": "chroot",
    "DAC_READ_SEARCH": "open_by_handle_at",
    "SYS_BOOT": "reboot",
    "SYS_MODULE": "delete_module finit_module init_module",
    "SYS_PACCT": "acct",
    "SYS_PTRACE": "kcmp pidfd_getfd process_madvise process_vm_readv process_vm_writev ptrace",
    "SYS_RAWIO": "ioperm iopl",
    "SYS_TIME": "clock_settime clock_settime64 settimeofday stime",
    "SYS_TTY_CONFIG": "vhangup",
    "SYS_NICE": "get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
    "SYSLOG": "syslog",
    "BPF": "bpf",
    "PERFMON": "perf_event_open",
}
"""Allowed with a capability that the kernel demands for them anyway."""

BY_ARCHITECTURE: Final = {
    "x86_64": "arch_prctl modify_ldt",
    "aarch64": "arm_fadvise64_64 arm_sync_file_range breakpoint cacheflush set_tls sync_file_range2",
    "armv7l": "arm_fadvise64_64 arm_sync_file_range breakpoint cacheflush set_tls sync_file_range2",
    "ppc64le": "sync_file_range2 swapcontext",
    "riscv64": "riscv_flush_icache",
    "s390x": "s390_pci_mmio_read s390_pci_mmio_write s390_runtime_instr",
}
"""By the machine's architecture, 32-bit programs of it included."""

ARCHITECTURES: Final = {
    "x86_64": ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"),
    "aarch64": ("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"),
    "armv7l": ("SCMP_ARCH_ARM",),
    "armv6l": ("SCMP_ARCH_ARM",),
    "riscv64": ("SCMP_ARCH_RISCV64",),
    "ppc64le": ("SCMP_ARCH_PPC64LE",),
    "s390x": ("SCMP_ARCH_S390X", "SCMP_ARCH_S390"),
}
"""The architecture of the kernel and of other programs that it runs; the native one first."""
