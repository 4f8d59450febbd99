package enroll

import (
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/tui/store"
)

// TestChooseCertificate: where the review finds several certificates before the list of tokens is there, the choice
// comes with that list.
func TestChooseCertificate(t *testing.T) {
	m := New(Services{Store: &store.Store{}}, Start{})
	m.at = stageReview
	blue := hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Label: "blue"}
	found := reviewMsg{review: enroll.Review{Options: enrolling.Options{Token: blue.URI()}}, err: enroll.ErrSeveralCertificates}
	m.page().update(found, time.Time{})
	if m.at != stageReview {
		t.Fatalf("without a token at stage %d", m.at)
	}
	m.Store.Tokens.Value.Views = []hsm.View{{Info: blue}}
	m.page().update(store.TokensMsg{}, time.Time{})
	if m.at != stageKey || m.token == nil {
		t.Errorf("at stage %d", m.at)
	}

	m.at = stageReview // a certificate was chosen, and the next review is under way
	m.pages[stageReview].(*reviewPage).err = nil
	m.page().update(store.TokensMsg{}, time.Time{})
	if m.at != stageReview {
		t.Error("the list of tokens leads away from a review that is under way")
	}
}
