/* A PKCS#11 library that passes everything on to another one (BAD_REAL), but misbehaves
   in some ways: the one that it is named after, and those that the file beside the library names
   now (its path and ".ways", words between blanks). The package's documentation lists them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "pkcs11go.h"

static CK_FUNCTION_LIST mine, *real;
static char control[4096], made[64];
static int lost;

/* named tells whether a word is among those of a text. */
static int named(const char *text, const char *word) {
	size_t n = strlen(word);
	const char *at;
	for (at = text; (at = strstr(at, word)) != NULL; at += n)
		if ((at == text || strchr(" \n", at[-1])) && strchr(" \n", at[n])) return 1;
	return 0;
}

static int way(const char *name) {
	char text[1024];
	size_t n;
	FILE *f;
	if (named(made, name)) return 1;
	f = fopen(control, "r");
	if (!f) return 0;
	n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = 0;
	return named(text, name);
}

static int at(const char *what, const char *point) {
	char name[64];
	if (strcmp(point, "init") == 0) return way(what);
	snprintf(name, sizeof name, "%s-%s", what, point);
	return way(name);
}

/* misbehave does what is wanted at a point that C code passes. */
static CK_RV misbehave(const char *point) {
	if (at("crash", point)) *(volatile int *)0 = 0;
	if (at("abort", point)) abort();
	if (at("exit", point)) _exit(0);
	if (at("slow", point)) sleep(3);
	while (at("hang", point)) usleep(50000);
	if (at("fail", point)) return CKR_DEVICE_ERROR;
	if (way("gone")) return CKR_TOKEN_NOT_PRESENT;
	if (!way("lose-sessions")) lost = 0;
	else if (!lost) {
		CK_SLOT_ID all[64];
		CK_ULONG i, n = 64;
		lost = 1;
		if (real->C_GetSlotList(CK_TRUE, all, &n) == CKR_OK)
			for (i = 0; i < n; i++) real->C_CloseAllSessions(all[i]);
	}
	return CKR_OK;
}

#define PASS(point) do { CK_RV bad = misbehave(point); if (bad != CKR_OK) return bad; } while (0)

static CK_RV initialize(CK_VOID_PTR args) {
	if (way("request") && getenv("EXTERNAL_SIGNER_PLUGIN_CONFIG")) _exit(3);
	if (way("loud")) {
		fputs("\033[2Jloud\n", stderr);
		puts("\033[2Jloud");
		fflush(stdout);
	}
	if (!way("gone")) PASS("init");
	return real->C_Initialize(args);
}

static CK_RV slots(CK_BBOOL present, CK_SLOT_ID_PTR list, CK_ULONG_PTR n) {
	CK_RV bad = misbehave("list");
	if (bad != CKR_OK && bad != CKR_TOKEN_NOT_PRESENT) return bad;
	if (bad == CKR_TOKEN_NOT_PRESENT && present) {
		*n = 0;
		return CKR_OK;
	}
	bad = real->C_GetSlotList(present, list, n);
	if (way("lie-list")) *n += 1000000;
	return bad;
}

static CK_RV token(CK_SLOT_ID id, CK_TOKEN_INFO_PTR i) {
	CK_RV rv;
	PASS("token");
	rv = real->C_GetTokenInfo(id, i);
	if (way("protected")) i->flags |= CKF_WRITE_PROTECTED;
	if (way("pad")) i->flags |= CKF_PROTECTED_AUTHENTICATION_PATH;
	return rv;
}

static CK_RV session(CK_SLOT_ID id, CK_FLAGS flags, CK_VOID_PTR app, CK_NOTIFY notify, CK_SESSION_HANDLE_PTR s) {
	PASS("session");
	if ((way("protected") || way("no-writes")) && flags & CKF_RW_SESSION) return CKR_TOKEN_WRITE_PROTECTED;
	return real->C_OpenSession(id, flags, app, notify, s);
}

static CK_RV state(CK_SESSION_HANDLE s, CK_SESSION_INFO_PTR i) {
	PASS("state");
	return real->C_GetSessionInfo(s, i);
}

static CK_RV login(CK_SESSION_HANDLE s, CK_USER_TYPE who, CK_UTF8CHAR_PTR pin, CK_ULONG n) {
	const char *typed = getenv("BAD_PIN");
	PASS("login");
	if (way("pad")) {
		if (pin || !typed) return CKR_ARGUMENTS_BAD;
		sleep(1);
		return real->C_Login(s, who, (CK_UTF8CHAR_PTR)typed, strlen(typed));
	}
	return real->C_Login(s, who, pin, n);
}

static CK_RV find(CK_SESSION_HANDLE s, CK_ATTRIBUTE_PTR t, CK_ULONG n) {
	PASS("find");
	return real->C_FindObjectsInit(s, t, n);
}

static CK_RV found(CK_SESSION_HANDLE s, CK_OBJECT_HANDLE_PTR list, CK_ULONG max, CK_ULONG_PTR n) {
	CK_RV rv = real->C_FindObjects(s, list, max, n);
	if (way("lie-find")) *n += 1000000;
	return rv;
}

static CK_RV attributes(CK_SESSION_HANDLE s, CK_OBJECT_HANDLE o, CK_ATTRIBUTE_PTR t, CK_ULONG n) {
	CK_ULONG i;
	CK_RV rv = real->C_GetAttributeValue(s, o, t, n);
	for (i = 0; i < n && way("lie-attributes"); i++) t[i].ulValueLen += 1000000;
	return rv;
}

static CK_RV sign(CK_SESSION_HANDLE s, CK_BYTE_PTR in, CK_ULONG n, CK_BYTE_PTR out, CK_ULONG_PTR m) {
	CK_RV rv;
	PASS("sign");
	rv = real->C_Sign(s, in, n, out, m);
	if (way("lie-sign")) *m += 1000000;
	return rv;
}

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list) {
	const char *path = getenv("BAD_REAL");
	void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	CK_C_GetFunctionList get = lib ? (CK_C_GetFunctionList)dlsym(lib, "C_GetFunctionList") : NULL;
	Dl_info self;
	if (!get || get(&real) != CKR_OK) return CKR_GENERAL_ERROR;
	if (dladdr(&mine, &self)) {
		const char *file = strrchr(self.dli_fname, '/') + 1;
		snprintf(control, sizeof control, "%s.ways", self.dli_fname);
		snprintf(made, sizeof made, "%.*s", (int)strcspn(file, "."), file);
	}
	mine = *real;
	mine.C_Initialize = initialize;
	mine.C_GetSlotList = slots;
	mine.C_GetTokenInfo = token;
	mine.C_OpenSession = session;
	mine.C_GetSessionInfo = state;
	mine.C_Login = login;
	mine.C_FindObjectsInit = find;
	mine.C_FindObjects = found;
	mine.C_GetAttributeValue = attributes;
	mine.C_Sign = sign;
	*list = &mine;
	if (way("other-lists") && (*list = malloc(sizeof mine)) != NULL) **list = mine;
	return CKR_OK;
}
