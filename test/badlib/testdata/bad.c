/* A PKCS#11 library that passes everything on to another one (BAD_REAL), but in one
   way of its own: WAY says which. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "pkcs11go.h"

static CK_FUNCTION_LIST mine, *real;

static int way(const char *name) { return strcmp(WAY, name) == 0; }

static CK_RV initialize(CK_VOID_PTR args) {
	if (way("crash")) *(volatile int *)0 = 0;
	if (way("exit")) _exit(0);
	if (way("slow")) sleep(3);
	if (way("request") && getenv("EXTERNAL_SIGNER_PLUGIN_CONFIG")) _exit(3);
	if (way("loud")) {
		fputs("\033[2Jloud\n", stderr);
		puts("\033[2Jloud");
		fflush(stdout);
	}
	while (way("hang")) sleep(1);
	return real->C_Initialize(args);
}

static CK_RV slots(CK_BBOOL present, CK_SLOT_ID_PTR list, CK_ULONG_PTR n) {
	while (way("hang-list")) sleep(1);
	return real->C_GetSlotList(present, list, n);
}

static CK_RV token(CK_SLOT_ID id, CK_TOKEN_INFO_PTR i) {
	if (way("crash-token")) abort();
	return real->C_GetTokenInfo(id, i);
}

static CK_RV login(CK_SESSION_HANDLE s, CK_USER_TYPE who, CK_UTF8CHAR_PTR pin, CK_ULONG n) {
	while (way("hang-login")) sleep(1);
	return real->C_Login(s, who, pin, n);
}

static CK_RV session(CK_SLOT_ID id, CK_FLAGS flags, CK_VOID_PTR app, CK_NOTIFY notify, CK_SESSION_HANDLE_PTR s) {
	if (way("crash-session")) abort();
	return real->C_OpenSession(id, flags, app, notify, s);
}

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list) {
	const char *path = getenv("BAD_REAL");
	void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	CK_C_GetFunctionList get = lib ? (CK_C_GetFunctionList)dlsym(lib, "C_GetFunctionList") : NULL;
	if (!get || get(&real) != CKR_OK) return CKR_GENERAL_ERROR;
	mine = *real;
	mine.C_Initialize = initialize;
	mine.C_GetSlotList = slots;
	mine.C_GetTokenInfo = token;
	mine.C_Login = login;
	mine.C_OpenSession = session;
	*list = &mine;
	return CKR_OK;
}
