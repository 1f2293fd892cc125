/* Stands between the program and its disk: a library to be loaded before all others (LD_PRELOAD).
 *
 * It looks at the data file FAULTS_FILE and at the -wal and -journal beside it, and at no other file. What it does to them
 * stands in the numbers of the file FAULTS_CONTROL, which it shares with the test (mod.rs names them in the same order). After each
 * sync that worked, a copy of the file is put into the directory FAULTS_SYNCED: that much outlasts a power cut. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum word {
    WRITE_ERROR,   /* the errno that writes get; 0: they work */
    SYNC_ERROR,    /* the same for syncs */
    ERRORS_LEFT,   /* how many calls get an error before all work again */
    KILL_AT,       /* the number of the write at which the process dies; 0: none */
    KILL_IN_HALF,  /* whether half of that write is done */
    HOLD,          /* whether writes and syncs wait */
    WRITES,        /* how many writes there have been */
    SYNCS,         /* how many syncs have worked */
    ERRORS,        /* how many calls have got an error */
    HELD,          /* how many calls have begun to wait */
    WORDS
};

static uint64_t *control;
static const char *file, *synced;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_CONTROL");
    file = getenv("FAULTS_FILE");
    synced = getenv("FAULTS_SYNCED");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0 || !file || !synced) abort();
    void *shared = mmap(NULL, WORDS * sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared == MAP_FAILED) abort();
    control = shared;
}

static uint64_t get(enum word word) { return __atomic_load_n(&control[word], __ATOMIC_SEQ_CST); }

static uint64_t count(enum word word) { return __atomic_add_fetch(&control[word], 1, __ATOMIC_SEQ_CST); }

/* What stands behind the name of the data file in that of an open file; NULL for a file that is not looked at. */
static const char *watched(int fd) {
    static __thread char path[PATH_MAX];
    char link[32];
    if (!control) return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    size_t name = strlen(file);
    if (length < (ssize_t)name || strncmp(path, file, name)) return NULL;
    path[length] = 0;
    const char *rest = path + name;
    return !*rest || !strcmp(rest, "-wal") || !strcmp(rest, "-journal") ? rest : NULL;
}

/* The errno that a call gets instead of what it wants; 0 when it goes through. */
static int refused(enum word cause) {
    if (get(HOLD)) {
        count(HELD);
        while (get(HOLD)) usleep(500);
    }
    int error = (int)get(cause);
    if (!error || !get(ERRORS_LEFT)) return 0;
    __atomic_sub_fetch(&control[ERRORS_LEFT], 1, __ATOMIC_SEQ_CST);
    count(ERRORS);
    return error;
}

/* Whether this write is the last thing that the process does. */
static int is_last(void) { return count(WRITES) == get(KILL_AT); }

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static ssize_t put(int fd, const void *bytes, size_t length, off_t offset, int is_placed) {
    if (is_placed) return syscall(SYS_pwrite64, fd, bytes, length, offset);
    return syscall(SYS_write, fd, bytes, length);
}

static ssize_t watched_put(int fd, const void *bytes, size_t length, off_t offset, int is_placed) {
    if (watched(fd)) {
        int error = refused(WRITE_ERROR);
        if (error) {
            errno = error;
            return -1;
        }
        if (is_last()) {
            if (get(KILL_IN_HALF)) put(fd, bytes, length / 2, offset, is_placed);
            die();
        }
    }
    return put(fd, bytes, length, offset, is_placed);
}

static int watched_truncate(int fd, off_t length) {
    if (watched(fd)) {
        int error = refused(WRITE_ERROR);
        if (error) {
            errno = error;
            return -1;
        }
        if (is_last()) die();
    }
    return (int)syscall(SYS_ftruncate, fd, length);
}

/* Whole or not at all: the copy gets its name last. */
static void keep(int fd, const char *suffix) {
    char part[PATH_MAX], whole[PATH_MAX], bytes[65536];
    snprintf(part, sizeof part, "%s/part%s", synced, suffix);
    snprintf(whole, sizeof whole, "%s/data%s", synced, suffix);
    int copy = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (copy < 0) abort();
    off_t at = 0;
    for (ssize_t got; (got = pread(fd, bytes, sizeof bytes, at)) != 0; at += got)
        if (got < 0 || syscall(SYS_write, copy, bytes, got) != got) abort();
    close(copy);
    if (rename(part, whole)) abort();
}

static int watched_sync(int fd, long number) {
    const char *suffix = watched(fd);
    int error = suffix ? refused(SYNC_ERROR) : 0;
    if (error) {
        errno = error;
        return -1;
    }
    int result = (int)syscall(number, fd);
    if (suffix && !result) {
        keep(fd, suffix);
        count(SYNCS);
    }
    return result;
}

ssize_t write(int fd, const void *bytes, size_t length) { return watched_put(fd, bytes, length, 0, 0); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) { return watched_put(fd, bytes, length, offset, 1); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) { return watched_put(fd, bytes, length, offset, 1); }
int ftruncate(int fd, off_t length) { return watched_truncate(fd, length); }
int ftruncate64(int fd, off64_t length) { return watched_truncate(fd, length); }
int fsync(int fd) { return watched_sync(fd, SYS_fsync); }
int fdatasync(int fd) { return watched_sync(fd, SYS_fdatasync); }
