package vcard

import (
	"crypto"
	"slices"
)

// Fault replaces the answer to commands that fit.
type Fault struct {
	INS byte
	// P2, if not nil, must fit too: it is the slot or the reference.
	P2 *byte
	// Times is 1 if it strikes once; 0 is always.
	Times int
	// Skip lets that many fitting commands pass first.
	Skip int
	// SW is the status word of the answer.
	SW uint16
	// Data is the answer's data.
	Data []byte
	// After lets the command take effect before its answer is replaced, as
	// when power fails between the two.
	After bool
	// Unplug pulls the card out instead of an answer.
	Unplug bool
}

// Fail makes the card answer as f says.
func (c *Card) Fail(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &f)
}

// Heal forgets all faults.
func (c *Card) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// fault finds the fault that strikes cmd.
func (c *Card) fault(cmd command) *Fault {
	for i, f := range c.faults {
		if f.INS != cmd.ins || f.P2 != nil && *f.P2 != cmd.p2 {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times == 1 {
			c.faults = slices.Delete(c.faults, i, i+1)
		}
		return f
	}
	return nil
}

// OnCommand calls f before each command is executed, as a moment to interfere;
// nil ends it. f must not use the card.
func (c *Card) OnCommand(f func(ins byte)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onCommand = f
}

// SetTouch replaces the touch callback.
func (c *Card) SetTouch(t Touch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config.Touch = t
}

// SetPINRetries sets how many tries of the PIN are left (0 locks it).
func (c *Card) SetPINRetries(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pin.left = n
}

// SetPIN replaces the PIN, as another program would with the old one.
func (c *Card) SetPIN(pin string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pin.value, c.pin.left, c.pin.isDefault = pad(pin), c.pin.total, pin == DefaultPIN
}

// PINRetries returns the tries left of PIN and PUK.
func (c *Card) PINRetries() (pin, puk int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pin.left, c.puk.left
}

// CheckPIN tells whether pin is the PIN, without spending a try.
func (c *Card) CheckPIN(pin string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pin.value == pad(pin)
}

// CheckPUK tells whether puk is the PUK, without spending a try.
func (c *Card) CheckPUK(puk string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.puk.value == pad(puk)
}

// Verified tells whether the PIN counts as verified now, which the next
// program to use the card would profit from.
func (c *Card) Verified() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.verified
}

// Managed tells whether the management key counts as proved now.
func (c *Card) Managed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.managed
}

// ManagementKey returns the management key and its algorithm (03 3DES, 08, 0A,
// 0C AES-128, -192, -256).
func (c *Card) ManagementKey() (alg byte, key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.management.alg, slices.Clone(c.management.key)
}

// SetManagementKey replaces the management key, as another program would.
func (c *Card) SetManagementKey(alg byte, key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.management.alg, c.management.key, c.management.isDefault = alg, slices.Clone(key), false
}

// Object returns a data object's content (inside tag 53), or nil.
func (c *Card) Object(id uint32) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.objects[id])
}

// SetObject writes a data object's content.
func (c *Card) SetObject(id uint32, content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[id] = slices.Clone(content)
}

// Public returns the public key in a slot, or nil.
func (c *Card) Public(slot byte) crypto.PublicKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.keys[slot]
	if !ok {
		return nil
	}
	return publicOf(k.private)
}

// SetKey puts a private key into a slot as an imported one, with Yubico's
// codes of the policies (PIN: 1 never, 2 once, 3 always; touch: 1 never, 2
// always, 3 cached). It reports whether the card can hold such a key.
func (c *Card) SetKey(slot byte, private crypto.PrivateKey, pin, touch byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	alg, ok := algorithmOf(private)
	if ok {
		c.keys[slot] = key{alg, private, pin, touch, originImported}
	}
	return ok
}

// Log returns the commands answered so far.
func (c *Card) Log() []Exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}

// Count returns how many commands with the instruction ins and any data were
// answered so far. A VERIFY without data, which only asks, is not counted.
func (c *Card) Count(ins byte) (n int) {
	for _, e := range c.Log() {
		if e.INS == ins && e.Length > 0 {
			n++
		}
	}
	return n
}
