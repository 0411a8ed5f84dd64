/* SPDX-License-Identifier: MIT */
/*
 * Names, sentences and stable codes of statuses, in two tables; at the end, the library's version.
 *
 * KIN__STATUSES is the one place that joins a condition of the runtime with its number, its code of
 * the specification and its sentence. The header spells the enum out for its readers; the compiler
 * compares the two: a wrong number fails an assertion, a forgotten row a warning of the switch.
 *
 * KIN__ERRNOS names the errors of Linux by the constants of the system's header, because the
 * numbers differ between machines. Where two names share a number, the table has the one that the
 * manual of Linux prefers: EAGAIN, EDEADLK, EOPNOTSUPP.
 *
 * Only constant strings are returned: there is nothing to lock, to free or to be interrupted.
 */
#include <kin/status.h>

#include <errno.h> /* the constants only */
#include <stddef.h>

#define KIN__STATUSES(X)                                                                           \
    X(KIN_OK, 0, "", "success")                                                                    \
    X(KIN_CANCELLED, -4096, "", "this task or its scope was cancelled")                            \
    X(KIN_TIMEOUT, -4097, "N2001", "a deadline passed")                                            \
    X(KIN_CLOSED, -4098, "", "the channel or mailbox is closed and drained")                       \
    X(KIN_FULL, -4099, "", "there is no room and the call may not wait")                           \
    X(KIN_EMPTY, -4100, "", "there is nothing and the call may not wait")                          \
    X(KIN_BUDGET, -4101, "", "a component of the budget is used up")                               \
    X(KIN_NOSCOPE, -4102, "N1001", "there is no nursery, or it no longer admits children")         \
    X(KIN_NOTASK, -4103, "N1002", "called outside a task, where a task is needed")                 \
    X(KIN_STUCK, -4104, "N2002", "a task did not react to cancellation in time")                   \
    X(KIN_ORPHAN, -4105, "N3001", "a task outlived its nursery")                                   \
    X(KIN_CLEANUP, -4106, "N3002", "a cleanup failed")                                             \
    X(KIN_NOCAP, -4107, "", "the task does not hold the capability")                               \
    X(KIN_PANICKED, -4108, "", "a task panicked")                                                  \
    X(KIN_OVERFLOW, -4109, "", "a task overflowed its stack")                                      \
    X(KIN_WORKER, -4110, "", "a worker was lost and replaced")                                     \
    X(KIN_NOPROC, -4111, "", "there is no such server, task or name")                              \
    X(KIN_TAKEN, -4112, "", "the name is taken")                                                   \
    X(KIN_STOPPING, -4113, "", "the server is draining or stopping")                               \
    X(KIN_NOREPLY, -4114, "", "the server dropped the call without an answer")                     \
    X(KIN_REPLIED, -4115, "", "the call has been answered before")                                 \
    X(KIN_GONE, -4116, "", "the caller no longer waits for this answer")                           \
    X(KIN_EXHAUSTED, -4117, "", "the restart budget is used up")                                   \
    X(KIN_LEAKED, -4118, "", "an obligation was leaked")                                           \
    X(KIN_DEADLOCK, -4119, "", "nothing can ever wake these tasks")                                \
    X(KIN_NOCONN, -4120, "", "the node is not connected")                                          \
    X(KIN_STALE, -4121, "", "the handle refers to something that is over")                         \
    X(KIN_UNSUPPORTED, -4122, "", "not available in this profile, build or system")                \
    X(KIN_IGNORE, -4123, "", "the start was declined, which is not a failure")

#define KIN__ERRNOS(X)                                                                             \
    X(EPERM, "the operation is not permitted")                                                     \
    X(ENOENT, "there is no such file or directory")                                                \
    X(ESRCH, "there is no such process")                                                           \
    X(EINTR, "a signal interrupted the system call")                                               \
    X(EIO, "input or output failed")                                                               \
    X(ENXIO, "there is no such device or address")                                                 \
    X(E2BIG, "the argument list is too long")                                                      \
    X(ENOEXEC, "the file is not in an executable format")                                          \
    X(EBADF, "the file descriptor is not valid")                                                   \
    X(ECHILD, "there are no child processes")                                                      \
    X(EAGAIN, "the resource is not available at the moment")                                       \
    X(ENOMEM, "there is not enough memory")                                                        \
    X(EACCES, "access is denied")                                                                  \
    X(EFAULT, "an address is not valid")                                                           \
    X(ENOTBLK, "a block device is needed")                                                         \
    X(EBUSY, "the device or resource is busy")                                                     \
    X(EEXIST, "it exists already")                                                                 \
    X(EXDEV, "the link would cross file systems")                                                  \
    X(ENODEV, "there is no such device")                                                           \
    X(ENOTDIR, "it is not a directory")                                                            \
    X(EISDIR, "it is a directory")                                                                 \
    X(EINVAL, "an argument is not valid")                                                          \
    X(ENFILE, "the system has too many open files")                                                \
    X(EMFILE, "the process has too many open files")                                               \
    X(ENOTTY, "the device does not support this control")                                          \
    X(ETXTBSY, "the program file is in use")                                                       \
    X(EFBIG, "the file is too large")                                                              \
    X(ENOSPC, "no space is left on the device")                                                    \
    X(ESPIPE, "a stream has no position to seek to")                                               \
    X(EROFS, "the file system is read-only")                                                       \
    X(EMLINK, "there are too many links")                                                          \
    X(EPIPE, "nobody reads at the other end")                                                      \
    X(EDOM, "an argument is outside the domain of the function")                                   \
    X(ERANGE, "the result is too large or too small")                                              \
    X(EDEADLK, "waiting for the lock would be a deadlock")                                         \
    X(ENAMETOOLONG, "the file name is too long")                                                   \
    X(ENOLCK, "no locks are available")                                                            \
    X(ENOSYS, "the system call is not implemented")                                                \
    X(ENOTEMPTY, "the directory is not empty")                                                     \
    X(ELOOP, "there are too many levels of symbolic links")                                        \
    X(ENOMSG, "there is no message of the wanted type")                                            \
    X(EIDRM, "the identifier was removed")                                                         \
    X(ECHRNG, "the channel number is out of range")                                                \
    X(EL2NSYNC, "level 2 is not synchronized")                                                     \
    X(EL3HLT, "level 3 is halted")                                                                 \
    X(EL3RST, "level 3 was reset")                                                                 \
    X(ELNRNG, "the link number is out of range")                                                   \
    X(EUNATCH, "the protocol driver is not attached")                                              \
    X(ENOCSI, "no CSI structure is available")                                                     \
    X(EL2HLT, "level 2 is halted")                                                                 \
    X(EBADE, "the exchange is not valid")                                                          \
    X(EBADR, "the request descriptor is not valid")                                                \
    X(EXFULL, "the exchange is full")                                                              \
    X(ENOANO, "there is no anode")                                                                 \
    X(EBADRQC, "the request code is not valid")                                                    \
    X(EBADSLT, "the slot is not valid")                                                            \
    X(EBFONT, "the font file has a bad format")                                                    \
    X(ENOSTR, "the device is not a stream")                                                        \
    X(ENODATA, "no data is available")                                                             \
    X(ETIME, "the timer expired")                                                                  \
    X(ENOSR, "there are no stream resources left")                                                 \
    X(ENONET, "the machine is not on the network")                                                 \
    X(ENOPKG, "the package is not installed")                                                      \
    X(EREMOTE, "the object is remote")                                                             \
    X(ENOLINK, "the link was severed")                                                             \
    X(EADV, "the resource is still advertised")                                                    \
    X(ESRMNT, "the resource is still mounted remotely")                                            \
    X(ECOMM, "communication failed while sending")                                                 \
    X(EPROTO, "the protocol was violated")                                                         \
    X(EMULTIHOP, "a multihop was attempted")                                                       \
    X(EDOTDOT, "the remote file system reports an error of its own")                               \
    X(EBADMSG, "the message is malformed")                                                         \
    X(EOVERFLOW, "the value is too large for its type")                                            \
    X(ENOTUNIQ, "the name is not unique on the network")                                           \
    X(EBADFD, "the file descriptor is in a bad state")                                             \
    X(EREMCHG, "the remote address changed")                                                       \
    X(ELIBACC, "a shared library cannot be accessed")                                              \
    X(ELIBBAD, "a shared library is corrupted")                                                    \
    X(ELIBSCN, "a library section of the program is corrupted")                                    \
    X(ELIBMAX, "the program uses too many shared libraries")                                       \
    X(ELIBEXEC, "a shared library cannot be executed")                                             \
    X(EILSEQ, "a byte sequence is not a character")                                                \
    X(ERESTART, "the interrupted system call should be restarted")                                 \
    X(ESTRPIPE, "the stream pipe failed")                                                          \
    X(EUSERS, "there are too many users")                                                          \
    X(ENOTSOCK, "it is not a socket")                                                              \
    X(EDESTADDRREQ, "a destination address is needed")                                             \
    X(EMSGSIZE, "the message is too long")                                                         \
    X(EPROTOTYPE, "the protocol does not fit the type of the socket")                              \
    X(ENOPROTOOPT, "the protocol has no such option")                                              \
    X(EPROTONOSUPPORT, "the protocol is not supported")                                            \
    X(ESOCKTNOSUPPORT, "the type of socket is not supported")                                      \
    X(EOPNOTSUPP, "the operation is not supported")                                                \
    X(EPFNOSUPPORT, "the protocol family is not supported")                                        \
    X(EAFNOSUPPORT, "the address family is not supported")                                         \
    X(EADDRINUSE, "the address is in use")                                                         \
    X(EADDRNOTAVAIL, "the address is not available on this machine")                               \
    X(ENETDOWN, "the network is down")                                                             \
    X(ENETUNREACH, "the network cannot be reached")                                                \
    X(ENETRESET, "the network dropped the connection")                                             \
    X(ECONNABORTED, "the connection was aborted on this side")                                     \
    X(ECONNRESET, "the other side reset the connection")                                           \
    X(ENOBUFS, "there is no buffer space")                                                         \
    X(EISCONN, "the socket is connected already")                                                  \
    X(ENOTCONN, "the socket is not connected")                                                     \
    X(ESHUTDOWN, "the socket was shut down for sending")                                           \
    X(ETOOMANYREFS, "there are too many references")                                               \
    X(ETIMEDOUT, "the operation took longer than the system allows")                               \
    X(ECONNREFUSED, "nobody accepts connections at that address")                                  \
    X(EHOSTDOWN, "the other machine is down")                                                      \
    X(EHOSTUNREACH, "there is no route to the other machine")                                      \
    X(EALREADY, "the operation is under way already")                                              \
    X(EINPROGRESS, "the operation has begun and goes on")                                          \
    X(ESTALE, "the file handle is stale")                                                          \
    X(EUCLEAN, "the structure needs cleaning")                                                     \
    X(ENOTNAM, "it is not a XENIX named type file")                                                \
    X(ENAVAIL, "no XENIX semaphores are available")                                                \
    X(EISNAM, "it is a named type file")                                                           \
    X(EREMOTEIO, "remote input or output failed")                                                  \
    X(EDQUOT, "the disk quota is used up")                                                         \
    X(ENOMEDIUM, "there is no medium in the drive")                                                \
    X(EMEDIUMTYPE, "the medium has the wrong type")                                                \
    X(ECANCELED, "the system cancelled the operation")                                             \
    X(ENOKEY, "the key is not available")                                                          \
    X(EKEYEXPIRED, "the key has expired")                                                          \
    X(EKEYREVOKED, "the key was revoked")                                                          \
    X(EKEYREJECTED, "the key was rejected")                                                        \
    X(EOWNERDEAD, "the owner of the lock died")                                                    \
    X(ENOTRECOVERABLE, "the state cannot be recovered")                                            \
    X(ERFKILL, "a switch keeps the radio off")                                                     \
    X(EHWPOISON, "the memory page has a hardware error")

struct status_row {
    const char *name;
    const char *code;
    const char *text;
};

/* The rows of the runtime in the table's order, and where each of them is. */
enum status_place {
#define X(name, number, code, text) STATUS_PLACE_##name,
    KIN__STATUSES(X)
#undef X
};

static const struct status_row status_rows[] = {
#define X(name, number, code, text) {#name, code, text},
    KIN__STATUSES(X)
#undef X
};

#define X(name, number, code, text)                                                                \
    _Static_assert((int)name == (number), #name " has another number in <kin/status.h>");
KIN__STATUSES(X)
#undef X

/* Indexed by errno; the gaps have no name. */
static const struct status_row status_errno_rows[] = {
#define X(name, text) [name] = {#name, "", text},
    KIN__ERRNOS(X)
#undef X
};

#define STATUS_ERRNO_END ((int)(sizeof(status_errno_rows) / sizeof(status_errno_rows[0])))
_Static_assert(sizeof(status_errno_rows) / sizeof(status_errno_rows[0]) <= 4096,
               "an errno reaches into the range of the runtime");

static const struct status_row status_unknown_row = {"unknown", "", "unknown error"};

/* The row of a condition of the runtime, or NULL. The switch has no default, so that the compiler
 * names an enumerator that the table lacks. */
static const struct status_row *status_find(enum kin_status status)
{
    switch (status) {
#define X(name, number, code, text)                                                                \
    case name:                                                                                     \
        return &status_rows[STATUS_PLACE_##name];
        KIN__STATUSES(X)
#undef X
    }
    return NULL;
}

static const struct status_row *status_row(int status)
{
    if (status >= 0)
        return &status_rows[STATUS_PLACE_KIN_OK];
    if (status > -STATUS_ERRNO_END && status_errno_rows[-status].name != NULL)
        return &status_errno_rows[-status];
    const struct status_row *row = status_find((enum kin_status)status);
    return row != NULL ? row : &status_unknown_row;
}

const char *kin_status_name(int status)
{
    return status_row(status)->name;
}

const char *kin_status_text(int status)
{
    return status_row(status)->text;
}

const char *kin_status_code(int status)
{
    return status_row(status)->code;
}

#define STATUS_QUOTE(x) #x
#define STATUS_VERSION(major, minor, patch)                                                        \
    STATUS_QUOTE(major) "." STATUS_QUOTE(minor) "." STATUS_QUOTE(patch)

const char *kin_version(void)
{
    return STATUS_VERSION(KIN_VERSION_MAJOR, KIN_VERSION_MINOR, KIN_VERSION_PATCH);
}
