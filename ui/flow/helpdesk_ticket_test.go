package flow

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
)

// TestSealKeysDoNotStay: a key that nothing can be sealed to any more is removed
// by whatever is done with tickets next; one of a ticket that could not be made
// is not kept at all.
func TestSealKeysDoNotStay(t *testing.T) {
	ctx := context.Background()
	e, _ := testEnv(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no tickets here", http.StatusForbidden)
	}))
	defer server.Close()
	pointAt(t, e, server)
	left := func() (names []string) {
		entries, err := os.ReadDir(e.sealDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return names
	}
	for _, id := range []string{"oldone", "newone"} {
		if _, err := e.newSealKey(id); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-ticket.MaxTTL - keepSealKeys - time.Minute)
	if err := os.Chtimes(e.sealPath("oldone"), before, before); err != nil {
		t.Fatal(err)
	}
	if _, err := e.OpenSealed("newone", "1", nil); err == nil {
		t.Error("nothing was opened")
	}
	if got := left(); !slices.Equal(got, []string{"newone.key"}) {
		t.Errorf("after another was used: %q", got)
	}
	if _, err := e.MakeTicket(ctx, "", TicketOptions{Terms: ticket.Terms{User: "jane"}, Seal: true}); !errors.Is(err, bootstraptoken.ErrForbidden) {
		t.Errorf("a ticket of a server that makes none: %v", err)
	}
	if got := left(); !slices.Equal(got, []string{"newone.key"}) {
		t.Errorf("after a ticket was refused: %q", got)
	}
	if err := errors.Join(e.ForgetSealKey("newone"), e.ForgetSealKey("newone")); err != nil {
		t.Error(err)
	}
}
