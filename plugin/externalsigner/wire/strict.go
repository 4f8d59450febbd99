package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// member is a name of a JSON object with its value.
type member struct {
	name  string
	value json.RawMessage
}

// members reads a JSON object: names as they are written, no doubled ones,
// nothing after it. encoding/json alone takes names in any case and the last of
// two; a package that does not would have half of Kubernetes' set up first.
func members(b []byte) (all []member, err error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	switch start, err := dec.Token(); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, err
	case start != json.Delim('{'):
		return nil, errors.New("it is not a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: key.(string)} // what else stands there is a syntax error
		if seen[m.name] {
			return nil, fmt.Errorf("duplicate field %.80q", m.name)
		}
		seen[m.name] = true
		if err := dec.Decode(&m.value); err != nil {
			return nil, ended(err)
		}
		all = append(all, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, ended(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the JSON object")
	}
	return all, nil
}

// ended words the end of a text that is cut off.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// read reads the value into v.
func (m member) read(v any) error {
	err := json.Unmarshal(m.value, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) { // whose text may quote the value
		return fmt.Errorf("field %.80q is of the wrong type (%s)", m.name, wrong.Value)
	}
	return err
}

// unknown refuses a member that nobody reads.
func (m member) unknown() error { return fmt.Errorf("unknown field %.80q", m.name) }
