package loopback

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// Maintain makes the next certificate in good time, and has it take the place of the one that
// ends. Only the agent calls it. Whatever it is interrupted in, by a full disk for one, the next
// call does again.
func Maintain(d home.Dirs) error {
	if err := here(d).maintain(); err != nil {
		return fmt.Errorf("maintain the bridge's identity: %w", err)
	}
	return nil
}

func (f folder) maintain() error {
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
	if err != nil {
		return err
	}
	changed, err := r.advance(f.machine, f.now)
	if err == nil && changed {
		err = f.write(r)
	}
	if err != nil {
		return err
	}
	return f.removeEnded(label)
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
