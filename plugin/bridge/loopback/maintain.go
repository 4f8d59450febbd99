package loopback

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// formerKey is the file in which older programs keep the server's key, unsealed.
const formerKey = "server.key"

// Maintain seals the key that an older program left open, makes the next certificate in
// good time, and has it take the place of the one that ends. Only the agent calls it: an
// agent of an older program could not use what is sealed. Whatever it is interrupted in, by
// a full disk for one, the next call does again.
func Maintain(d home.Dirs) error {
	if err := here(d).maintain(false); err != nil {
		return fmt.Errorf("maintain the bridge's identity: %w", err)
	}
	return nil
}

// ShowNext has the bridge show the next certificate from now on.
func ShowNext(d home.Dirs) error {
	if err := here(d).maintain(true); err != nil {
		return fmt.Errorf("show the bridge's next certificate: %w", err)
	}
	return nil
}

func (f folder) maintain(showNext bool) error {
	release, err := f.lock()
	if err != nil {
		return err
	}
	defer release()
	label, err := f.machine.label()
	if err != nil {
		return err
	}
	r, err := f.read(label)
	changed := errors.Is(err, fs.ErrNotExist)
	if changed {
		var i identity
		if i, err = f.former(); err == nil {
			r.Identities = []identity{i}
		}
	}
	if err != nil {
		return err
	}
	if showNext && len(r.Identities) > 1 {
		r.Identities, changed = r.Identities[1:], true
	}
	advanced, err := r.advance(f.machine, f.now)
	if err == nil && (changed || advanced) {
		err = f.write(r)
	}
	if err != nil {
		return err
	}
	return errors.Join(f.removeFormer(), f.removeEnded(label))
}

// former is the identity that an older program made, sealed in memory. Its files stay.
// Errors: [fs.ErrNotExist].
func (f folder) former() (identity, error) {
	var files [3][]byte
	for n, name := range []string{formerKey, "ca.crt", "server.crt"} {
		path := f.path(name)
		err := home.CheckFile(path)
		if err == nil {
			files[n], err = os.ReadFile(path)
		}
		switch {
		case n == 0 && errors.Is(err, fs.ErrNotExist):
			return identity{}, err // the key goes first, see removeFormer
		case err != nil:
			return identity{}, f.damaged(err)
		}
	}
	defer clear(files[0])
	ca, _ := pem.Decode(files[1])
	leaf, _ := pem.Decode(files[2])
	if ca == nil || leaf == nil {
		return identity{}, f.damaged(errors.New("a certificate is not PEM"))
	}
	i, err := f.machine.sealed(ca.Bytes, leaf.Bytes, files[0])
	if err == nil {
		_, err = i.pair(f.machine)
	}
	if err != nil {
		return identity{}, f.damaged(err)
	}
	i.Former = true
	return i, nil
}

// removeFormer removes what is in the record now. An older program says of the rest that
// it is damaged, and how a new one is made.
func (f folder) removeFormer() error {
	for _, name := range []string{formerKey, "server.crt", "ca.crt"} {
		if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeEnded removes the records of other machines whose last certificate has ended.
func (f folder) removeEnded(own string) error {
	labels, err := record.Names(f.path("machines"))
	if err != nil {
		return err
	}
	for _, label := range labels {
		if label == own {
			continue
		}
		r, err := f.read(label)
		if err != nil {
			continue // the bridge of that machine reports the error
		}
		if f.now.After(r.Identities[len(r.Identities)-1].ends()) {
			if err := os.Remove(f.record(label)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
