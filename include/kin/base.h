/* SPDX-License-Identifier: MIT */
/*
 * What every header of kin needs: attributes, linkage, the version.
 *
 * A call that can fail is marked KIN_MUST_USE. To drop its status on purpose, write
 * kin_ignore(call()): a cast to void silences clang but not gcc.
 */
#ifndef KIN_BASE_H
#define KIN_BASE_H

#ifdef __cplusplus
#define KIN_BEGIN_DECLS extern "C" {
#define KIN_END_DECLS }
#else
#define KIN_BEGIN_DECLS
#define KIN_END_DECLS
#endif

/* The symbol is part of the library's interface; everything else is hidden. */
#define KIN_API __attribute__((visibility("default")))
/* The compiler warns when the result is dropped. */
#define KIN_MUST_USE __attribute__((warn_unused_result))
/* The function does not return. */
#define KIN_NORETURN __attribute__((noreturn))
/* Argument number fmt_ is a printf format, its values start at first_; 0 for a va_list. */
#define KIN_PRINTF(fmt_, first_) __attribute__((__format__(__printf__, fmt_, first_)))
/* Calls fn(&variable) when the variable declared with it goes out of scope. */
#define KIN_CLEANUP(fn) __attribute__((cleanup(fn)))

#ifndef __cplusplus
/* A pointer to options that last as long as the block around: KIN_CONFIG(.workers = 1) and its
 * likes. What is not named has its default. C++ begins with the _INIT macros. */
#define KIN_OPTIONS_(type_, ...)                                                                   \
    (&(const struct type_){ .size = sizeof(struct type_), __VA_ARGS__ })
#endif

/* The version of the headers; kin_version tells that of the library. */
#define KIN_VERSION_MAJOR 0
#define KIN_VERSION_MINOR 1
#define KIN_VERSION_PATCH 0
/* One number that grows with the version: 1.2.3 is 10203. */
#define KIN_VERSION_NUMBER (KIN_VERSION_MAJOR * 10000 + KIN_VERSION_MINOR * 100 + KIN_VERSION_PATCH)

KIN_BEGIN_DECLS

/**
 * kin_version - the version of the library that is linked, such as "0.1.0".
 *
 * It differs from KIN_VERSION_MAJOR, KIN_VERSION_MINOR and KIN_VERSION_PATCH when the program was
 * compiled with the headers of another version.
 *
 * Example:
 *     void print_version(void)
 *     {
 *         printf("compiled with kin %d.%d, running with %s\n", KIN_VERSION_MAJOR,
 *                KIN_VERSION_MINOR, kin_version());
 *     }
 *
 * From:    task, thread, signal
 * Parks:   no
 * Returns: a string that is never freed
 */
KIN_API const char *kin_version(void);

/**
 * kin_ignore - drop a status on purpose.
 * @rc: the status.
 *
 * Example:
 *     void nap(void)
 *     {
 *         kin_ignore(kin_sleep(kin_after(KIN_MS(1))));
 *     }
 *
 * From:    task, thread, signal
 * Parks:   no
 * Returns: nothing
 */
static inline void kin_ignore(int rc)
{
    (void)rc;
}

KIN_END_DECLS

#endif
