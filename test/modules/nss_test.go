//go:build linux && cgo

package modules

import (
	"runtime"
	"testing"
	"unsafe"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	"github.com/kubehsm/kubehsm/test/p11server"
	"github.com/kubehsm/kubehsm/test/tokens"
)

const (
	nssPIN   = "Correct-Horse-7"
	nssLabel = "NSS of the test"
)

// nss makes a database of NSS's softokn, with a PIN, and returns the library with what its
// C_Initialize must be given.
func nss(t *testing.T) pkcs11.Module {
	t.Helper()
	t.Setenv("NSS_MAX_MP_PBE_ITERATION_COUNT", "100") // iterations decide how long a login takes
	m := pkcs11.Module{Path: p11server.Library(t, "libsoftokn3.so"), Reserved: "configdir='sql:" + t.TempDir() +
		"' certPrefix='' keyPrefix='' secmod='' dbTokenDescription='" + nssLabel + "'"}
	reserved := append([]byte(m.Reserved), 0)
	var pin runtime.Pinner
	pin.Pin(&reserved[0])
	defer pin.Unpin()
	library(t, m.Path, func(c *p11.Ctx, must func(error)) {
		slots, err := c.GetSlotList(true)
		must(err)
		for _, slot := range slots {
			info, err := c.GetTokenInfo(slot)
			must(err)
			if info.Label == nssLabel {
				loggedIn(c, must, slot, p11.CKU_SO, "", func(sh p11.SessionHandle) { must(c.InitPIN(sh, nssPIN)) })
			}
		}
	}, p11.InitializeWithFlags(p11.CKF_OS_LOCKING_OK), p11.InitializeWithReserved(unsafe.Pointer(&reserved[0])))
	return m
}

// TestNSS: softokn, the store of Firefox and of other programs that use NSS, is set up by
// words that its C_Initialize is given.
func TestNSS(t *testing.T) {
	r := hsmtest.Run(t, hsmtest.Fixture{
		Algorithms: []hsm.Algorithm{hsm.ECDSAP256, hsm.RSA2048},
		NoOrigin:   true,
		New: func(t *testing.T) hsmtest.Device {
			d := driver(t, nss(t))
			return hsmtest.Device{Driver: d, Token: labelled(t, d, nssLabel)[0].URI(), PIN: nssPIN, WrongPIN: "Wrong-Horse-8"}
		},
	})
	tokens.Record(t, "NSS softokn", "pkcs11: libsoftokn3", r)
}
