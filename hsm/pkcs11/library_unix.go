//go:build cgo && !windows

package pkcs11

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long (*kubehsm_login)(unsigned long, unsigned long, unsigned char *, unsigned long);

// CK_FUNCTION_LIST of PKCS#11 v2.40: the version, then 68 functions in a fixed order.
struct kubehsm_functions {
	unsigned char major, minor;
	void *f[68];
};

enum { KUBEHSM_C_LOGIN = 18 };

// kubehsm_open loads a module and returns its functions, or NULL and a message to be freed.
static struct kubehsm_functions *kubehsm_open(const char *path, char **message) {
	void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (handle == NULL) {
		const char *m = dlerror();
		*message = strdup(m != NULL ? m : "it cannot be loaded");
		return NULL;
	}
	unsigned long (*list)(struct kubehsm_functions **) = dlsym(handle, "C_GetFunctionList");
	struct kubehsm_functions *functions = NULL;
	if (list == NULL) {
		*message = strdup("it is no PKCS#11 module: it has no C_GetFunctionList");
		return NULL;
	}
	if (list(&functions) != 0 || functions == NULL) {
		*message = strdup("its C_GetFunctionList failed");
		return NULL;
	}
	return functions;
}

static unsigned long kubehsm_call_login(struct kubehsm_functions *l, unsigned long session, unsigned long user, void *pin, unsigned long n) {
	return ((kubehsm_login)l->f[KUBEHSM_C_LOGIN])(session, user, (unsigned char *)pin, n);
}
*/
import "C"

import (
	"errors"
	"unsafe"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
)

// library is a loaded module beside miekg/pkcs11's view of it: that package
// gives no reason when loading fails, and leaves a copy of the PIN in freed C
// memory at every login. Modules are never unloaded; not all survive it.
type library struct{ functions *C.struct_kubehsm_functions }

func openLibrary(path string) (*library, *p11.Ctx, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var message *C.char
	functions := C.kubehsm_open(name, &message)
	if functions == nil {
		defer C.free(unsafe.Pointer(message))
		return nil, nil, errors.New(C.GoString(message))
	}
	ctx := p11.New(path)
	if ctx == nil {
		return nil, nil, errors.New("it cannot be loaded")
	}
	return &library{functions: functions}, ctx, nil
}

// login is C_Login on the secret's own memory. A nil pin is typed on the reader.
func (l *library) login(_ *p11.Ctx, sh p11.SessionHandle, user uint, pin *hsm.Secret) error {
	b := pin.Bytes()
	rv := C.kubehsm_call_login(l.functions, C.ulong(sh), C.ulong(user), unsafe.Pointer(unsafe.SliceData(b)), C.ulong(len(b)))
	if rv != p11.CKR_OK {
		return p11.Error(rv)
	}
	return nil
}
