package wire

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// The keys of an auth provider's configuration. All values are strings. They
// are read in any case, with or without hyphens: clients have written slot-id
// and object-id, too.
const (
	KeyPathExec   = "pathExec" // the signer to start
	KeyPathLib    = "pathLib"  // PKCS#11 library
	KeySlotID     = "slotId"   // slot, a decimal number
	KeyObjectID   = "objectId" // CKA_ID of one byte, as a decimal number
	KeyPIN        = "pin"
	KeyURI        = "uri"        // ours: a token URI
	KeyEnrollment = "enrollment" // ours: the enrollment that the entry was written for
)

// ProviderName is the auth provider's name in kubeconfigs.
const ProviderName = "externalSigner"

var keys = []string{KeyPathExec, KeyPathLib, KeySlotID, KeyObjectID, KeyPIN, KeyURI, KeyEnrollment}

// Canonical returns the usual spelling of a configuration key, and whether it
// is one that the protocol or kubehsm knows.
func Canonical(key string) (string, bool) {
	plain := strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key))
	i := slices.IndexFunc(keys, func(k string) bool { return strings.ToLower(k) == plain })
	if i < 0 {
		return key, false
	}
	return keys[i], true
}

// Config says where the key is: by URI, which counts if it is there, or by
// PathLib, SlotID and ObjectID.
type Config struct {
	// URI is nil if none is given.
	URI *hsm.URI
	// PathLib is the absolute path of a PKCS#11 library, or "". It is code that
	// the author of the kubeconfig wants to be run.
	PathLib string
	// SlotID and ObjectID are nil if not given.
	SlotID   *uint64
	ObjectID *byte
	// PIN is nil if none is given.
	PIN *hsm.Secret
	// Enrollment is what the author of the kubeconfig calls the enrollment, or "".
	Enrollment string
	// Unknown are the keys that mean nothing here, sorted.
	Unknown []string
}

func parseConfig(m map[string]text) (c Config, err error) {
	values := map[string]text{}
	for key, value := range m {
		name, known := Canonical(key)
		if value == nil {
			return c, fmt.Errorf("the configuration's %.80q is not a string", key)
		}
		if !known {
			c.Unknown = append(c.Unknown, key)
			continue
		}
		if other, twice := values[name]; twice && string(other) != string(value) {
			return c, fmt.Errorf("the configuration gives %s twice, with two values", name)
		}
		values[name] = value
	}
	slices.Sort(c.Unknown)
	c.Enrollment = string(values[KeyEnrollment])
	if pin := values[KeyPIN]; len(pin) > 0 {
		c.PIN = hsm.NewSecret(slices.Clone(pin))
	}
	return c, c.parsePlace(values)
}

func (c *Config) parsePlace(values map[string]text) error {
	if s := string(values[KeyURI]); s != "" {
		u, err := hsm.ParseURI(s)
		if err != nil {
			return fmt.Errorf("the configuration's uri: %w", err)
		}
		c.URI = &u
	}
	if c.PathLib = string(values[KeyPathLib]); c.PathLib != "" && !filepath.IsAbs(c.PathLib) {
		return fmt.Errorf("pathLib %.200q is not an absolute path", c.PathLib)
	}
	if c.URI != nil { // the rest does not count
		return nil
	}
	slot, object := string(values[KeySlotID]), string(values[KeyObjectID])
	if c.PathLib == "" || slot == "" || object == "" {
		return hint.With(errors.New("the configuration names no key: it has neither a uri nor pathLib, slotId and objectId"),
			"`kubehsm key list` shows the URIs of keys")
	}
	n, err := strconv.ParseUint(slot, 10, 64)
	if err != nil {
		return fmt.Errorf("slotId %.40q is not a number", slot)
	}
	id, err := strconv.ParseUint(object, 10, 8)
	if err != nil {
		return hint.With(fmt.Errorf("objectId %.40q is not a number between 0 and 255", object), instead(object))
	}
	b := byte(id)
	c.SlotID, c.ObjectID = &n, &b
	return nil
}

const maxID = 64

// instead is the uri to give in place of a bad objectId. Other tools show the bytes of an id in
// hex.
func instead(object string) string {
	plain := strings.NewReplacer(":", "", "%", "", " ", "").Replace(strings.TrimPrefix(object, "0x"))
	if id, err := hex.DecodeString(plain); err == nil && len(id) > 0 && len(id) <= maxID {
		return fmt.Sprintf("for an id of several bytes, or in hex, use uri: '%s'; `kubehsm key list` shows "+
			"the URIs of all keys", hsm.ModuleObject(id))
	}
	return "give the key's uri instead; `kubehsm key list` shows it"
}
