package token

import (
	"github.com/kubehsm/kubehsm/hsm"
)

// Renamed is that a reset gave a card another identity: what it was known by was on it.
type Renamed struct {
	Was hsm.URI `json:"was"`
	Now hsm.URI `json:"now"` // names no serial if the card has nothing to be known by any more
	// Enrollments name the card as it was, and their keys are destroyed. Commands make new
	// ones of them, one each.
	Enrollments []string `json:"enrollments,omitempty"`
	Commands    []string `json:"commands,omitempty"`
}

// renamed compares what a token was and is known by; nil if that is the same.
func (ts Tokens) renamed(was, now hsm.TokenInfo) (*Renamed, error) {
	if was.Serial == now.Serial {
		return nil, nil
	}
	r := &Renamed{Was: was.URI(), Now: now.URI()}
	all, err := ts.Env.Enrollments().List()
	if err != nil {
		return r, err
	}
	for _, en := range all {
		if en.Key.Scheme != was.Scheme || en.Key.Serial != was.Serial {
			continue
		}
		r.Enrollments = append(r.Enrollments, en.Name)
		r.Commands = append(r.Commands, en.Restart(r.Now))
	}
	return r, nil
}
