package hsm

import (
	"path/filepath"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Place is where a token is, as far as its URI or description tells. What is said of one
// that is not there, and what to do about it, depends on it.
type Place string

// The places.
const (
	Somewhere Place = ""          // unknown
	InReader  Place = "reader"    // a smart card, or a key with a plug
	InFiles   Place = "files"     // a library that keeps its tokens in files
	InService Place = "service"   // a daemon of this machine
	InTPM     Place = "tpm"       // the TPM of this machine
	OnNetwork Place = "network"   // an HSM elsewhere
	Forwarded Place = "forwarded" // token of another machine, through p11-kit
)

// libraryPlaces are the beginnings of libraries' names, in lower case, after any "lib": most
// have none on Windows.
var libraryPlaces = []struct {
	begins string
	place  Place
}{
	{"softhsm", InFiles}, {"softokn", InFiles}, {"tpm2_pkcs11", InTPM},
	{"p11-kit-client", Forwarded}, {"pkcs11-proxy", Forwarded},
	{"opencryptoki", InService}, {"pkcs11_api", InService}, {"yubihsm_pkcs11", InService},
	{"cryptoki", OnNetwork}, {"cs_pkcs11", OnNetwork}, {"cknfast", OnNetwork},
	{"cloudhsm", OnNetwork}, {"primusp11", OnNetwork}, {"kmsp11", OnNetwork},
	{"opensc-pkcs11", InReader}, {"onepin-opensc-pkcs11", InReader}, {"ykcs11", InReader},
	{"etpkcs11", InReader}, {"idprimepkcs11", InReader},
}

// makerPlaces are the beginnings of makers' names, in lower case. They tell the place if a
// URI names no library.
var makerPlaces = []struct {
	begins string
	place  Place
}{
	{"softhsm", InFiles}, {"mozilla", InFiles}, {openSCPIV, InReader}, {"yubico", InReader},
	{"utimaco", OnNetwork}, {"ncipher", OnNetwork}, {"entrust", OnNetwork}, {"marvell", OnNetwork},
	{"cavium", OnNetwork}, {"securosys", OnNetwork},
}

// Place is where the token is that u names.
func (u URI) Place() Place { return placeOf(u.Scheme, u.ModulePath, u.Manufacturer) }

// Place is where the token is.
func (t TokenInfo) Place() Place {
	path := ""
	if t.Module != nil {
		path = t.Module.Path
	}
	return placeOf(t.Scheme, path, t.Manufacturer)
}

// PlaceOfLibrary is where the tokens of the library at path are.
func PlaceOfLibrary(path string) Place { return placeOf(SchemePKCS11, path, "") }

func placeOf(scheme, path, maker string) Place {
	if scheme == SchemePIV {
		return InReader
	}
	name, maker := strings.TrimPrefix(strings.ToLower(filepath.Base(path)), "lib"), strings.ToLower(maker)
	for _, l := range libraryPlaces {
		if path != "" && strings.HasPrefix(name, l.begins) {
			return l.place
		}
	}
	for _, m := range makerPlaces {
		if strings.HasPrefix(maker, strings.ToLower(m.begins)) {
			return m.place
		}
	}
	return Somewhere
}

// Absent says in a clause that the token is not there.
func (p Place) Absent() string {
	switch p {
	case InReader:
		return "not plugged in"
	case OnNetwork, InService:
		return "not reached"
	case Forwarded:
		return "not forwarded"
	}
	return "not there"
}

// Back is the next step with a token that is not there.
func (p Place) Back() string {
	switch p {
	case InReader:
		return "plug it in"
	case InFiles:
		return "check that the library finds the files with its tokens (SoftHSM: SOFTHSM2_CONF says where they are)"
	case InService:
		return "check that the library's service is running (openCryptoki: pkcsslotd)"
	case InTPM:
		return "check that your user may open the TPM (/dev/tpmrm0), and that TPM2_PKCS11_STORE names the right folder"
	case OnNetwork:
		return "check that the HSM is up and that this machine can reach it; the library's configuration has its address"
	case Forwarded:
		return "check that the p11-kit server and the connection to it are up, and that the other machine has the token"
	}
	return "plug it in, or check that its connection is up: a service, the network"
}

// Missing is the next step with a token of that place that is not listed.
func (p Place) Missing() string { return p.Back() + "; `kubehsm token list` shows the tokens found" }

// Again is the next step with a token that is listed but does not work.
func (p Place) Again() string {
	if p == InReader {
		return "unplug it, then plug it in again"
	}
	return p.Back()
}

// leaveOut is how a library is not used any more.
const leaveOut = "to stop using the library, remove it from config.yaml, put `disable-in: kubehsm` into its p11-kit " +
	".module file, or list your own libraries in config.yaml with `onlyModules: true`"

// restartReaders is the command that restarts the smart card service.
func restartReaders() string {
	const pcscd = "`sudo systemctl restart pcscd`"
	return hint.PerOS(pcscd, pcscd, "`Restart-Service SCardSvr`, as an administrator")
}

// Hung is the next step with the library at path, or, if path is "", the smart card service,
// that does not answer.
func Hung(path string) string {
	if path == "" {
		return "restart the service, for example with " + restartReaders()
	}
	first := PlaceOfLibrary(path).Back()
	switch PlaceOfLibrary(path) {
	case InReader:
		first = "unplug its tokens and plug them in again, or restart the smart card service (" + restartReaders() + ")"
	case Somewhere:
		first = "check the connection to its tokens: plug them in again, or restart the service that it uses (for smart " +
			"cards: " + restartReaders() + ")"
	}
	return first + "; " + leaveOut
}

// Crashed is the next step with the library at path, or, if path is "", the smart card service,
// that crashed.
func Crashed(path string) string {
	if path == "" {
		return Hung(path)
	}
	return "update or repair the library; " + leaveOut
}

// Unblock is the next step when the user's PIN of the token is blocked.
func (t TokenInfo) Unblock() string {
	switch {
	case t.Place() == InTPM:
		return "the TPM refuses all PINs after too many wrong ones; that ends by itself after a while, or at once with " +
			"`tpm2_dictionarylockout --clear-lockout`"
	case maybeTwin(t):
		return "the token is a PIV card and has a PUK: " + unblockWith(PUK) + "; use the piv: URI (`kubehsm token list`)"
	}
	return unblockWith(t.Kind().Unblocks)
}

// unblockWith is the command that sets a new PIN by that secret.
func unblockWith(kind PINKind) string {
	if kind == "" {
		kind = "PUK or SO PIN"
	}
	return "`kubehsm token pin unblock` sets a new PIN with the " + string(kind)
}

// shortSerial is how many characters of a long serial are typed at least.
const shortSerial = 8

// ShortSerial is the part of the serial that a person has to type: of a long serial the
// shortest end, of at least eight characters, that no token in others shares. It is the whole
// serial if that is short or no shorter end is unambiguous. Tokens in others with the same
// description as t do not count.
func (t TokenInfo) ShortSerial(others []TokenInfo) string {
	const long = 12 // serials up to this length, such as a YubiKey's, are typed whole
	for n := shortSerial; len(t.Serial) > long && n < len(t.Serial); n++ {
		end, shared := t.Serial[len(t.Serial)-n:], false
		for _, o := range others {
			same := o.Scheme == t.Scheme && o.Serial == t.Serial && o.Label == t.Label && o.Model == t.Model
			shared = shared || !same && strings.HasSuffix(o.Serial, end)
		}
		if !shared {
			return end
		}
	}
	return t.Serial
}
