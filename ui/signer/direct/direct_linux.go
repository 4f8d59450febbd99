//go:build cgo && (amd64 || arm64)

package direct

/*
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

// The linker sets these: Go's code and ours is in between, a library's is not.
extern char __executable_start, etext;

static const struct { int number; const char *name; } signals[] = {
	{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"}, {SIGABRT, "SIGABRT"},
};
enum { count = sizeof(signals) / sizeof(signals[0]) };
static struct sigaction before[count];
static const char *crashed_words, *rest_words, *ended_words;

static void say(const char *words) {
	if (write(STDERR_FILENO, words, strlen(words)) < 0)
		_exit(1);
}

static char *at(void *context) {
#ifdef __aarch64__
	return (char *)((ucontext_t *)context)->uc_mcontext.pc;
#else
	return (char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#endif
}

// Go's own handler has the signals of Go's code (package os/signal, "Go programs that use cgo").
static void crashed(int number, siginfo_t *info, void *context) {
	for (int i = 0; i < count; i++) {
		if (signals[i].number != number)
			continue;
		char *pc = at(context);
		if (pc >= &__executable_start && pc < &etext) {
			before[i].sa_sigaction(number, info, context);
			return;
		}
		say(crashed_words);
		say(signals[i].name);
		say(rest_words);
	}
	_exit(1);
}

// Go ends a program without the C library: only a library comes here.
static void ended(void) {
	say(ended_words);
	_exit(1);
}

static int kubehsm_watch(const char *crash, const char *rest, const char *end) {
	crashed_words = crash, rest_words = rest, ended_words = end;
	for (int i = 0; i < count; i++) {
		struct sigaction ours;
		if (sigaction(signals[i].number, NULL, &before[i]) != 0 || !(before[i].sa_flags & SA_SIGINFO))
			return 0;
		ours = before[i];
		ours.sa_sigaction = crashed;
		if (sigaction(signals[i].number, &ours, NULL) != 0)
			return 0;
	}
	return atexit(ended) == 0;
}
*/
import "C"

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/ui"
)

// Stdout returns this process's standard output for the answer alone: what a library
// writes there goes to standard error from now on.
func Stdout() (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(syscall.Stdout), unix.F_DUPFD_CLOEXEC, syscall.Stderr+1)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := unix.Dup3(syscall.Stderr, syscall.Stdout, 0); err != nil {
		return nil, os.NewSyscallError("dup3", err)
	}
	return os.NewFile(uintptr(fd), "stdout"), nil
}

// Use prepares this process for the library at path, and tells whether it may use it. It is
// called once.
func Use(path string) bool {
	if hsm.Harden() != nil || child.LockMemory() != nil {
		return false
	}
	const mark = "SIGNAL"
	crash := report(path, fmt.Errorf("%w: the library %s crashed (%s)", hsm.ErrModule, path, mark))
	i := strings.LastIndex(crash, mark)
	crash, rest := crash[:i], crash[i+len(mark):]
	end := report(path, fmt.Errorf("%w: the library %s ended the program", hsm.ErrModule, path))
	return C.kubehsm_watch(C.CString(crash), C.CString(rest), C.CString(end)) != 0
}

// report is what a person reads.
func report(path string, err error) string {
	var b strings.Builder
	ui.Report(&b, hint.With(err, "see the tries left with `kubehsm token info` before you give the PIN again, as the "+
		"library may have had it when it failed; "+hsm.Crashed(path)))
	return b.String()
}
