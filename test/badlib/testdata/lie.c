/* A PKCS#11 library that passes everything on to another one (BAD_REAL) and lies about
   what that says, where and how a seed decides (LIE_SEED, read by C_Initialize). It keeps
   to the buffers that it is given: what breaks that is no lie but a crash, see bad.c.
   Each PIN that it is given adds a byte to the file LIE_LOG: u for the user's login, c for
   that before a use of a key. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pkcs11go.h"

static CK_FUNCTION_LIST mine, *real;
static unsigned long long state;
static unsigned long rate;
static int endless;

static unsigned long chance(unsigned long n) {
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned long)(state >> 11) % n;
}

static int lie(void) { return chance(rate) == 0; }

static CK_RV wrong(void) {
	static const CK_RV codes[] = {CKR_DEVICE_ERROR, CKR_SESSION_HANDLE_INVALID, CKR_SESSION_CLOSED, CKR_DEVICE_REMOVED,
		CKR_TOKEN_NOT_PRESENT, CKR_GENERAL_ERROR, CKR_CRYPTOKI_NOT_INITIALIZED, CKR_USER_NOT_LOGGED_IN, CKR_ARGUMENTS_BAD,
		CKR_OBJECT_HANDLE_INVALID, CKR_ATTRIBUTE_TYPE_INVALID, CKR_BUFFER_TOO_SMALL, CKR_FUNCTION_NOT_SUPPORTED,
		CKR_PIN_INCORRECT, CKR_PIN_LOCKED, CKR_USER_ALREADY_LOGGED_IN, CKR_HOST_MEMORY, 0x80000001, ~(CK_RV)0};
	return codes[chance(sizeof codes / sizeof *codes)];
}

static void noise(void *to, unsigned long n) {
	unsigned char *b = to;
	unsigned long i, kind = chance(5);
	for (i = 0; i < n; i++)
		b[i] = kind == 0 ? 0 : kind == 1 ? "\033[2J\r\n\a"[i % 7] : kind == 2 ? 0xff : kind == 3 ? 'A' : (unsigned char)chance(256);
}

static unsigned long length(unsigned long n) {
	switch (chance(6)) {
	case 0: return 0;
	case 1: return n ? chance(n) : 0;
	case 2: return n + 1 + chance(16);
	case 3: return n + chance(1 << 22);
	case 4: return (unsigned long)-1;
	}
	return chance(1 << 16);
}

static CK_RV initialize(CK_VOID_PTR args) {
	const char *seed = getenv("LIE_SEED");
	state = (seed ? strtoull(seed, NULL, 10) : 1) * 0x9e3779b97f4a7c15ULL | 1;
	rate = 1;
	{
		static const unsigned long rates[] = {4, 8, 16, 32, 64, 128, 256, 1024};
		rate = rates[chance(8)];
	}
	endless = 0;
	return real->C_Initialize(args);
}

static CK_RV info(CK_INFO_PTR i) {
	CK_RV rv = real->C_GetInfo(i);
	if (lie()) noise(i->manufacturerID, sizeof i->manufacturerID);
	if (lie()) noise(i->libraryDescription, sizeof i->libraryDescription);
	return lie() ? wrong() : rv;
}

static CK_RV slots(CK_BBOOL present, CK_SLOT_ID_PTR list, CK_ULONG_PTR n) {
	CK_ULONG i;
	CK_RV rv = real->C_GetSlotList(present, list, n);
	if (rv == CKR_OK && lie()) {
		if (!list) *n = chance(4) ? *n + chance(9) : ~0UL >> chance(8);
		else if (chance(2)) *n = chance(*n + 1);
		else for (i = 0; i < *n; i++) list[i] = chance(2) ? list[chance(*n)] : chance(~0UL);
	}
	return lie() ? wrong() : rv;
}

static CK_RV slot(CK_SLOT_ID id, CK_SLOT_INFO_PTR i) {
	CK_RV rv = real->C_GetSlotInfo(id, i);
	if (lie()) noise(i->slotDescription, sizeof i->slotDescription);
	if (lie()) noise(i, sizeof *i);
	return lie() ? wrong() : rv;
}

static CK_RV token(CK_SLOT_ID id, CK_TOKEN_INFO_PTR i) {
	CK_RV rv = real->C_GetTokenInfo(id, i);
	if (lie()) noise(i->label, sizeof i->label);
	if (lie()) noise(i->serialNumber, sizeof i->serialNumber);
	if (lie()) i->flags = chance(~0UL);
	if (lie()) i->flags ^= 1UL << chance(24);
	if (lie()) i->ulMaxPinLen = length(8);
	if (lie()) i->ulMinPinLen = length(8);
	if (lie()) noise(i, sizeof *i);
	return lie() ? wrong() : rv;
}

static CK_RV mechanisms(CK_SLOT_ID id, CK_MECHANISM_TYPE_PTR list, CK_ULONG_PTR n) {
	CK_ULONG i;
	CK_RV rv = real->C_GetMechanismList(id, list, n);
	if (rv == CKR_OK && lie()) {
		if (!list) *n += chance(64);
		else if (chance(2)) *n = chance(*n + 1);
		else for (i = 0; i < *n; i++) if (chance(2)) list[i] = chance(0x1100);
	}
	return lie() ? wrong() : rv;
}

static CK_RV mechanism(CK_SLOT_ID id, CK_MECHANISM_TYPE m, CK_MECHANISM_INFO_PTR i) {
	CK_RV rv = real->C_GetMechanismInfo(id, m, i);
	if (lie()) noise(i, sizeof *i);
	return lie() ? wrong() : rv;
}

static CK_RV session(CK_SLOT_ID id, CK_FLAGS flags, CK_VOID_PTR app, CK_NOTIFY notify, CK_SESSION_HANDLE_PTR s) {
	CK_RV rv = real->C_OpenSession(id, flags, app, notify, s);
	if (rv == CKR_OK && lie()) *s = chance(4);
	return lie() ? wrong() : rv;
}

static CK_RV closes(CK_SESSION_HANDLE s) {
	CK_RV rv = real->C_CloseSession(s);
	return lie() ? wrong() : rv;
}

static CK_RV about(CK_SESSION_HANDLE s, CK_SESSION_INFO_PTR i) {
	CK_RV rv = real->C_GetSessionInfo(s, i);
	if (lie()) i->state = chance(6);
	if (lie()) noise(i, sizeof *i);
	return lie() ? wrong() : rv;
}

static CK_RV login(CK_SESSION_HANDLE s, CK_USER_TYPE who, CK_UTF8CHAR_PTR pin, CK_ULONG n) {
	const char *path = getenv("LIE_LOG");
	FILE *f = path && pin ? fopen(path, "a") : NULL; /* without one, it is typed on the reader */
	CK_RV rv;
	if (f) {
		fputc(who == CKU_CONTEXT_SPECIFIC ? 'c' : 'u', f);
		fclose(f);
	}
	rv = real->C_Login(s, who, pin, n);
	if (lie()) return chance(2) ? CKR_OK : wrong();
	return rv;
}

static CK_RV logout(CK_SESSION_HANDLE s) {
	CK_RV rv = real->C_Logout(s);
	return lie() ? wrong() : rv;
}

static CK_RV search(CK_SESSION_HANDLE s, CK_ATTRIBUTE_PTR t, CK_ULONG n) {
	CK_RV rv = real->C_FindObjectsInit(s, t, lie() ? chance(n + 1) : n);
	endless = chance(rate * 8) == 0;
	return lie() ? wrong() : rv;
}

static CK_RV found(CK_SESSION_HANDLE s, CK_OBJECT_HANDLE_PTR list, CK_ULONG max, CK_ULONG_PTR n) {
	CK_ULONG i;
	CK_RV rv = real->C_FindObjects(s, list, max, n);
	if (endless && rv == CKR_OK) {
		for (i = *n; i < max; i++) list[i] = 1 + chance(16);
		*n = max;
		return rv;
	}
	if (rv == CKR_OK && lie()) {
		if (chance(2)) *n = chance(*n + 1);
		else for (i = 0; i < *n; i++) list[i] = chance(2) ? list[chance(*n)] : chance(16);
	}
	return lie() ? wrong() : rv;
}

static CK_RV attributes(CK_SESSION_HANDLE s, CK_OBJECT_HANDLE o, CK_ATTRIBUTE_PTR t, CK_ULONG n) {
	CK_ULONG i, room[64];
	CK_RV rv;
	for (i = 0; i < n && i < 64; i++) room[i] = t[i].pValue ? t[i].ulValueLen : 0;
	rv = real->C_GetAttributeValue(s, o, t, n);
	for (i = 0; i < n && i < 64; i++) {
		if (!lie()) continue;
		if (!t[i].pValue) {
			t[i].ulValueLen = length(t[i].ulValueLen);
			continue;
		}
		switch (chance(4)) {
		case 0: noise(t[i].pValue, room[i]); t[i].ulValueLen = room[i]; break;
		case 1: t[i].ulValueLen = room[i]; break; /* whatever is there */
		case 2: t[i].ulValueLen = room[i] ? chance(room[i]) : 0; break;
		case 3: t[i].ulValueLen = CK_UNAVAILABLE_INFORMATION; break;
		}
	}
	return lie() ? wrong() : rv;
}

static CK_RV signInit(CK_SESSION_HANDLE s, CK_MECHANISM_PTR m, CK_OBJECT_HANDLE key) {
	CK_RV rv = real->C_SignInit(s, m, lie() ? 1 + chance(16) : key);
	return lie() ? wrong() : rv;
}

static CK_RV sign(CK_SESSION_HANDLE s, CK_BYTE_PTR in, CK_ULONG n, CK_BYTE_PTR out, CK_ULONG_PTR m) {
	CK_ULONG room = out ? *m : 0;
	CK_RV rv = real->C_Sign(s, in, n, out, m);
	if (lie()) {
		if (!out) *m += chance(1 << 16);
		else if (chance(2)) *m = chance(room + 1);
		else if (chance(4) == 0) *m = ~0UL >> chance(2);
		else noise(out, room);
	}
	return lie() ? wrong() : rv;
}

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list) {
	const char *path = getenv("BAD_REAL");
	void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	CK_C_GetFunctionList get = lib ? (CK_C_GetFunctionList)dlsym(lib, "C_GetFunctionList") : NULL;
	if (!get || get(&real) != CKR_OK) return CKR_GENERAL_ERROR;
	mine = *real;
	mine.C_Initialize = initialize;
	mine.C_GetInfo = info;
	mine.C_GetSlotList = slots;
	mine.C_GetSlotInfo = slot;
	mine.C_GetTokenInfo = token;
	mine.C_GetMechanismList = mechanisms;
	mine.C_GetMechanismInfo = mechanism;
	mine.C_OpenSession = session;
	mine.C_CloseSession = closes;
	mine.C_GetSessionInfo = about;
	mine.C_Login = login;
	mine.C_Logout = logout;
	mine.C_FindObjectsInit = search;
	mine.C_FindObjects = found;
	mine.C_GetAttributeValue = attributes;
	mine.C_SignInit = signInit;
	mine.C_Sign = sign;
	*list = &mine;
	return CKR_OK;
}
