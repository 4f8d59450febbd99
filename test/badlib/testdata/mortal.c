/* A PKCS#11 library that passes everything on to another one (BAD_REAL), and kills its
   process and the command that started it, after the call that KILL_AT counts, of those
   that write to the token. It adds a byte to KILL_LOG for each such call. With KILL_IN, the folder
   in which SoftHSM keeps the token, it kills in the middle of making a key pair. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "pkcs11go.h"

static CK_FUNCTION_LIST mine, *real;
static int calls;

static void die(void) {
	if (getppid() > 1) kill(getppid(), SIGKILL);
	kill(getpid(), SIGKILL);
	for (;;) pause();
}

static CK_RV wrote(CK_RV rv) {
	const char *at = getenv("KILL_AT"), *log = getenv("KILL_LOG");
	int fd = log ? open(log, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
	if (fd >= 0) {
		if (write(fd, "w", 1) != 1) abort();
		close(fd);
	}
	calls++;
	if (at && calls == atoi(at)) die();
	return rv;
}

/* A kill in the middle of making a key pair leaves the first object, and the file of the second one, which
   is empty until the library has all that belongs in it. How much of the file a kill from outside finds
   depends on the moment: here, it is always the empty one. */
static void half(CK_SESSION_HANDLE s, CK_OBJECT_HANDLE second, const char *dir) {
	char path[4096];
	int fd;
	if (real->C_DestroyObject(s, second) != CKR_OK) abort();
	snprintf(path, sizeof path, "%s/00000000-0000-0000-0000-000000000000.object", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd < 0) abort();
	close(fd);
	die();
}

static CK_RV pair(CK_SESSION_HANDLE s, CK_MECHANISM_PTR m, CK_ATTRIBUTE_PTR pub, CK_ULONG pubs, CK_ATTRIBUTE_PTR priv,
		CK_ULONG privs, CK_OBJECT_HANDLE_PTR pubh, CK_OBJECT_HANDLE_PTR privh) {
	const char *dir = getenv("KILL_IN");
	CK_RV rv = real->C_GenerateKeyPair(s, m, pub, pubs, priv, privs, pubh, privh);
	if (dir && rv == CKR_OK) half(s, *privh, dir);
	return wrote(rv);
}

static CK_RV set(CK_SESSION_HANDLE s, CK_OBJECT_HANDLE o, CK_ATTRIBUTE_PTR a, CK_ULONG n) {
	return wrote(real->C_SetAttributeValue(s, o, a, n));
}

static CK_RV create(CK_SESSION_HANDLE s, CK_ATTRIBUTE_PTR a, CK_ULONG n, CK_OBJECT_HANDLE_PTR o) {
	return wrote(real->C_CreateObject(s, a, n, o));
}

static CK_RV destroy(CK_SESSION_HANDLE s, CK_OBJECT_HANDLE o) { return wrote(real->C_DestroyObject(s, o)); }

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list) {
	const char *path = getenv("BAD_REAL");
	void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	CK_C_GetFunctionList get = lib ? (CK_C_GetFunctionList)dlsym(lib, "C_GetFunctionList") : NULL;
	if (!get || get(&real) != CKR_OK) return CKR_GENERAL_ERROR;
	mine = *real;
	mine.C_GenerateKeyPair = pair;
	mine.C_SetAttributeValue = set;
	mine.C_CreateObject = create;
	mine.C_DestroyObject = destroy;
	*list = &mine;
	return CKR_OK;
}
