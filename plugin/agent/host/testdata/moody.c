/* A PKCS#11 library that passes everything on to another one (MOODY_REAL), but
   does as the file MOODY_FILE says: crash or hang when it signs, or when the
   PIN comes, have no token any more. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "pkcs11go.h"

static CK_FUNCTION_LIST mine, *real;

static int mood(const char *name) {
	char said[32] = "";
	const char *path = getenv("MOODY_FILE");
	FILE *f = path ? fopen(path, "r") : NULL;
	if (f) {
		if (!fgets(said, sizeof said, f)) said[0] = 0;
		fclose(f);
	}
	return strcmp(said, name) == 0;
}

static CK_RV sign(CK_SESSION_HANDLE s, CK_BYTE_PTR in, CK_ULONG n, CK_BYTE_PTR out, CK_ULONG_PTR m) {
	if (mood("crash")) *(volatile int *)0 = 0;
	while (mood("hang")) sleep(1);
	return real->C_Sign(s, in, n, out, m);
}

static CK_RV login(CK_SESSION_HANDLE s, CK_USER_TYPE who, CK_UTF8CHAR_PTR pin, CK_ULONG n) {
	while (mood("hang-login")) sleep(1);
	if (mood("crash-login")) *(volatile int *)0 = 0;
	return real->C_Login(s, who, pin, n);
}

static CK_RV slots(CK_BBOOL present, CK_SLOT_ID_PTR list, CK_ULONG_PTR n) {
	if (!mood("gone")) return real->C_GetSlotList(present, list, n);
	*n = 0;
	return CKR_OK;
}

static CK_RV info(CK_SESSION_HANDLE s, CK_SESSION_INFO_PTR i) {
	return mood("gone") ? CKR_DEVICE_REMOVED : real->C_GetSessionInfo(s, i);
}

static CK_RV token(CK_SLOT_ID id, CK_TOKEN_INFO_PTR i) {
	return mood("gone") ? CKR_TOKEN_NOT_PRESENT : real->C_GetTokenInfo(id, i);
}

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list) {
	const char *path = getenv("MOODY_REAL");
	void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	CK_C_GetFunctionList get = lib ? (CK_C_GetFunctionList)dlsym(lib, "C_GetFunctionList") : NULL;
	if (!get || get(&real) != CKR_OK) return CKR_GENERAL_ERROR;
	mine = *real;
	mine.C_Sign = sign;
	mine.C_Login = login;
	mine.C_GetSlotList = slots;
	mine.C_GetSessionInfo = info;
	mine.C_GetTokenInfo = token;
	*list = &mine;
	return CKR_OK;
}
