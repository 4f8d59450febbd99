package vcard

import (
	"cmp"
	"crypto"
	"slices"
	"sync"
	"time"
)

// The factory values (Yubico's PIV documentation).
const (
	DefaultPIN = "123456"
	DefaultPUK = "12345678"
)

// DefaultManagementKey returns the factory's management key, 24 bytes: a 3DES
// key before firmware 5.7, an AES-192 key since.
func DefaultManagementKey() []byte {
	return []byte{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}
}

// Feature is something that a card may lack.
type Feature uint

// The features that [Config.Without] can take away.
const (
	PIV           Feature = 1 << iota // the application itself: a foreign card
	Metadata                          // GET METADATA
	Serial                            // GET SERIAL, here and in the OTP application
	Version                           // GET VERSION
	Attestation                       // ATTEST
	Deverify                          // VERIFY with P1 FF, which forgets the PIN
	OtherApps                         // the management and OTP applications
	Move                              // MOVE KEY
	Status                            // VERIFY without data tells that the PIN was verified
	SetManagement                     // SET MANAGEMENT KEY
	Reset                             // RESET
	Policies                          // PIN and touch policies in GENERATE

	// Extensions are all commands that are Yubico's own, and the applications beside PIV.
	Extensions = Metadata | Serial | Version | Attestation | OtherApps | Move | SetManagement | Reset | Policies
)

// formFactor is Yubico's code of a USB-C keychain.
const formFactor = 3

// Touch answers the wish of a card to be touched: true, it was; false, nobody
// came. done is closed when the card is pulled out. It may block.
type Touch func(slot byte, done <-chan struct{}) bool

// Config says what card to make. The zero value is a YubiKey with firmware
// 5.7.1 and serial 12345678 whose touches come at once.
type Config struct {
	Serial   uint32
	Firmware [3]byte
	Without  Feature
	Touch    Touch
	// CA signs the card's attestation certificate; nil is one that all cards of
	// this process share.
	CA *CA
	// EmptyPolicies has GET METADATA answer for an empty slot with policies alone,
	// as some cards do, instead of that there is nothing.
	EmptyPolicies bool
	// CHUID gives the card a card-holder identifier with this GUID.
	CHUID *[16]byte
	// Ways are how it differs from the card that the documents describe.
	Ways Ways
}

// key is a private key in a slot.
type key struct {
	alg        byte
	private    crypto.PrivateKey
	pin, touch byte
	origin     byte
}

// secret is a PIN or PUK with its counter.
type secret struct {
	value       [8]byte
	total, left int
	isDefault   bool
}

// Card is a PIV card. Its methods are safe for concurrent use.
type Card struct {
	config Config
	device *Device

	mu         sync.Mutex
	pin, puk   secret
	management struct {
		alg       byte
		key       []byte
		isDefault bool
	}
	keys    map[byte]key
	objects map[uint32][]byte
	used    bool // has left the factory

	// volatile: gone with the power or another application
	app         string
	verified    bool
	fresh       bool // the last command was a VERIFY that succeeded
	managed     bool
	witness     []byte
	touchedTill time.Time
	chain       []byte
	pending     []byte

	faults    []*Fault
	log       []Exchange
	onCommand func(ins byte)
}

// New makes a card.
func New(config Config) *Card {
	if config.Serial == 0 {
		config.Serial = 12345678
	}
	if config.Firmware == ([3]byte{}) {
		config.Firmware = [3]byte{5, 7, 1}
	}
	if config.Touch == nil {
		config.Touch = func(byte, <-chan struct{}) bool { return true }
	}
	c := &Card{config: config}
	c.factory()
	c.certify()
	return c
}

// factory sets what RESET sets: everything but the attestation key.
func (c *Card) factory() {
	attestation, certificate := c.keys[slotAttestation], c.objects[objectAttestation]
	tries := cmp.Or(c.config.Ways.Tries, 3)
	c.pin = secret{value: pad(DefaultPIN), total: tries, left: tries, isDefault: true}
	c.puk = secret{value: pad(DefaultPUK), total: tries, left: tries, isDefault: true}
	c.management.alg, c.management.key = algTDES, DefaultManagementKey()
	c.management.isDefault = true
	if c.since(5, 7) {
		c.management.alg = algAES192
	}
	if alg := c.config.Ways.Management; alg != 0 {
		c.management.alg, c.management.key = alg, DefaultManagementKey()[:managementLength(alg)]
	}
	c.keys, c.objects = map[byte]key{}, map[uint32][]byte{}
	if attestation.private != nil {
		c.keys[slotAttestation], c.objects[objectAttestation] = attestation, certificate
	}
	g := c.config.CHUID
	if g != nil && c.config.Ways.NewCHUID && c.used { // the first one is the configuration's
		g = (*[16]byte)(random(16))
	}
	c.used = true
	if g != nil {
		c.objects[objectCHUID] = slices.Concat(put(0x30, make([]byte, 25)), put(0x34, g[:]),
			put(0x35, []byte("20500101")), put(0x3e), put(0xfe))
	}
	c.powerOff()
}

func pad(s string) (b [8]byte) {
	for i := range b {
		b[i] = 0xff
	}
	copy(b[:], s)
	return b
}

// powerOff forgets what lives only while the card has power.
func (c *Card) powerOff() {
	c.app = ""
	c.leaveApp()
}

// leaveApp forgets what a change of application forgets.
func (c *Card) leaveApp() {
	c.verified, c.fresh, c.managed = false, false, false
	c.witness, c.chain, c.pending = nil, nil, nil
	c.touchedTill = time.Time{}
}

func (c *Card) has(f Feature) bool { return c.config.Without&f == 0 }

// since tells whether the firmware is major.minor or newer.
func (c *Card) since(major, minor byte) bool {
	v := c.config.Firmware
	return v[0] > major || v[0] == major && v[1] >= minor
}
