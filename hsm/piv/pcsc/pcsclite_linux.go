//go:build cgo

package pcsc

/*
#cgo LDFLAGS: -Wl,--as-needed -ldl
#cgo pkg-config: libpcsclite
#include <dlfcn.h>
#include <pthread.h>
#include <winscard.h>

// What github.com/ebfe/scard calls goes through these to the library, which is
// loaded when a reader is first looked for: a program that was linked to it would
// load it at each start, dozens of times an hour for nothing, and would not start
// at all where there is none, not even for PKCS#11 tokens. They are not seen
// from outside: a PKCS#11 module calls the library itself.
#define FORWARDED __attribute__((visibility("hidden")))

// Where it is missing it is looked for each time: somebody may install it while
// the program runs, having read that it is missing.
static void *find(const char *name) {
	static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
	static void *library;
	void *f;
	pthread_mutex_lock(&turn);
	if (library == NULL) library = dlopen("libpcsclite.so.1", RTLD_NOW | RTLD_LOCAL);
	f = library == NULL ? NULL : dlsym(library, name);
	pthread_mutex_unlock(&turn);
	return f;
}

#define FORWARD(name, params, args) \
	FORWARDED LONG name params { \
		LONG(*f) params = (LONG(*) params)find(#name); \
		return f == NULL ? SCARD_E_NO_SERVICE : f args; \
	}

FORWARD(SCardEstablishContext, (DWORD scope, LPCVOID r1, LPCVOID r2, LPSCARDCONTEXT ctx), (scope, r1, r2, ctx))
FORWARD(SCardReleaseContext, (SCARDCONTEXT ctx), (ctx))
FORWARD(SCardIsValidContext, (SCARDCONTEXT ctx), (ctx))
FORWARD(SCardCancel, (SCARDCONTEXT ctx), (ctx))
FORWARD(SCardListReaders, (SCARDCONTEXT ctx, LPCSTR groups, LPSTR readers, LPDWORD n), (ctx, groups, readers, n))
FORWARD(SCardListReaderGroups, (SCARDCONTEXT ctx, LPSTR groups, LPDWORD n), (ctx, groups, n))
FORWARD(SCardGetStatusChange, (SCARDCONTEXT ctx, DWORD timeout, SCARD_READERSTATE *states, DWORD n),
	(ctx, timeout, states, n))
FORWARD(SCardConnect, (SCARDCONTEXT ctx, LPCSTR reader, DWORD share, DWORD protocols, LPSCARDHANDLE card,
	LPDWORD protocol),
	(ctx, reader, share, protocols, card, protocol))
FORWARD(SCardReconnect, (SCARDHANDLE card, DWORD share, DWORD protocols, DWORD initialization, LPDWORD protocol),
	(card, share, protocols, initialization, protocol))
FORWARD(SCardDisconnect, (SCARDHANDLE card, DWORD disposition), (card, disposition))
FORWARD(SCardBeginTransaction, (SCARDHANDLE card), (card))
FORWARD(SCardEndTransaction, (SCARDHANDLE card, DWORD disposition), (card, disposition))
FORWARD(SCardStatus, (SCARDHANDLE card, LPSTR reader, LPDWORD n, LPDWORD state, LPDWORD protocol, LPBYTE atr,
	LPDWORD m),
	(card, reader, n, state, protocol, atr, m))
FORWARD(SCardTransmit, (SCARDHANDLE card, const SCARD_IO_REQUEST *sent, LPCBYTE command, DWORD n,
	SCARD_IO_REQUEST *received, LPBYTE answer, LPDWORD m),
	(card, sent, command, n, received, answer, m))
FORWARD(SCardControl, (SCARDHANDLE card, DWORD code, LPCVOID in, DWORD n, LPVOID out, DWORD m, LPDWORD got),
	(card, code, in, n, out, m, got))
FORWARD(SCardGetAttrib, (SCARDHANDLE card, DWORD id, LPBYTE value, LPDWORD n), (card, id, value, n))
FORWARD(SCardSetAttrib, (SCARDHANDLE card, DWORD id, LPCBYTE value, DWORD n), (card, id, value, n))

FORWARDED const char *pcsc_stringify_error(const LONG code) {
	const char *(*f)(LONG) = (const char *(*)(LONG))find("pcsc_stringify_error");
	return f == NULL ? "the smart card library is missing" : f(code);
}
*/
import "C"
