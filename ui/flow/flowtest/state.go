package flowtest

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// World is where a use case is tried: folders, a token, and an API server to which the
// current context leads.
type World struct {
	T      testing.TB
	Env    *env.Env
	Card   *hsmtest.FakeToken
	Server *Server
}

// NewWorld returns one with a token of a scheme, whose server admits user; with "" there
// is no server.
func NewWorld(t testing.TB, scheme string, o hsmtest.FakeOptions, user string, groups ...string) *World {
	t.Helper()
	fake := hsmtest.NewFake(scheme)
	w := &World{T: t, Card: fake.Add(o)}
	w.Env, _ = Env(t)
	w.Env.Drivers = hsm.Drivers{fake}
	if user != "" {
		w.Server = New(t, user, groups...)
		PointAt(t, w.Env, w.Server.Server)
	}
	return w
}

// Generate makes a key on the token, which is locked again.
func (w *World) Generate(o hsm.GenerateOptions) hsm.Slot {
	w.T.Helper()
	var s hsm.Slot
	w.open(func(t hsm.Token) (err error) {
		if s, err = t.Generate(w.T.Context(), o, hsmtest.Typing(w.T, w.Card.PIN())); err == nil {
			err = t.Lock()
		}
		return err
	})
	return s
}

// Enroll makes a key on the token and an enrollment with it at the server, as name, with
// a certificate for an hour.
func (w *World) Enroll(name, user string, groups ...string) enrollment.Enrollment {
	w.T.Helper()
	key := w.Generate(hsm.GenerateOptions{Label: name, Slot: "9a"})
	hash, err := hsm.Fingerprint(key.Key.Public)
	must.OK(w.T, err)
	en := enrollment.Enrollment{Name: name, Key: key.URI, KeyHash: hash, User: user, Groups: groups,
		Created: time.Now().UTC()}
	en.Cluster.Server, en.Cluster.Direct = w.Server.URL, true
	en.Cluster.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Server.Certificate().Raw})
	cert, err := x509.ParseCertificate(certify(w.T, pkix.Name{CommonName: user, Organization: groups}, key.Key.Public,
		time.Now().Add(-time.Minute), time.Now().Add(time.Hour)))
	if err == nil {
		store := w.Env.Enrollments()
		en = w.Signed(en)
		err = errors.Join(w.Env.Dirs.Prepare(), store.Save(en), store.SaveCertificate(en, []*x509.Certificate{cert}))
	}
	must.OK(w.T, err)
	return en
}

// Record adds records to the audit log in the folders of d, as an agent does.
func Record(t testing.TB, d home.Dirs, records ...audit.Record) {
	t.Helper()
	err := d.Prepare()
	var log *audit.Log
	if err == nil {
		log, err = audit.Open(audit.Path(d))
	}
	must.OK(t, err)
	for _, r := range records {
		err = errors.Join(err, log.Write(r))
	}
	must.OK(t, errors.Join(err, log.Close()))
}

// Signed returns en with its record signed by its key, which is on a token of the first driver.
func (w *World) Signed(en enrollment.Enrollment) enrollment.Enrollment {
	w.T.Helper()
	fake, ok := w.Env.Drivers[0].(*hsmtest.Fake)
	if !ok {
		w.T.Fatal("the first driver is no fake")
	}
	en, err := en.SignedBy(fake.Key(en.KeyHash), time.Now())
	must.OK(w.T, err)
	return en
}

func (w *World) open(f func(hsm.Token) error) {
	w.T.Helper()
	t, err := w.Env.Drivers.Open(w.T.Context(), w.Card.Info().URI())
	if err == nil {
		defer t.Close()
		err = f(t)
	}
	must.OK(w.T, err)
}

// State is all that a use case can leave behind: in files, on the token and in the
// cluster. Locks, the bridge's and what the agent says of itself are left out.
func (w *World) State() map[string]string {
	w.T.Helper()
	s := map[string]string{"PIN": w.Card.PIN(), "PUK": w.Card.PUK(), "PIN tries": strconv.Itoa(w.Card.Tries())}
	w.open(func(t hsm.Token) error {
		if w.Card.Info().Can.Details {
			d, err := t.Details(w.T.Context())
			if err != nil {
				return err
			}
			s["PUK tries"], s["management key"] = strconv.Itoa(d.PUK.Left), fmt.Sprint(d.ManagementKey)
		}
		slots, err := t.Slots(w.T.Context(), nil)
		for _, slot := range slots {
			sum, err := hsm.Fingerprint(slot.Key.Public)
			if err != nil {
				return err
			}
			if slot.Certificate != nil {
				sum += fmt.Sprintf(" certificate %x", sha256.Sum256(slot.Certificate.Raw))
			}
			s["slot "+slot.Label+slot.URI.Slot] = sum
		}
		return err
	})
	s["kubeconfig"] = read(w.T, w.Env.Kubeconfig)
	err := filepath.WalkDir(w.Env.Dirs.Home, func(p string, d fs.DirEntry, err error) error {
		name, rel := d.Name(), strings.TrimPrefix(p, w.Env.Dirs.Home+"/")
		if err == nil && d.Type().IsRegular() && !strings.HasSuffix(name, ".lock") && !strings.HasPrefix(name, "agent.") &&
			!strings.HasPrefix(rel, "state/bridge") {
			s["file "+rel] = agents.ReplaceAllString(read(w.T, p), "")
		}
		return err
	})
	must.OK(w.T, err)
	if w.Server == nil {
		return s
	}
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	for p, o := range w.Server.objects {
		raw, err := json.Marshal(o)
		must.OK(w.T, err)
		s["object "+p] = string(raw)
	}
	return s
}

// Unchanged fails the test if the state is another one than before.
func (w *World) Unchanged(before map[string]string) {
	w.T.Helper()
	if after := w.State(); !maps.Equal(before, after) {
		w.T.Errorf("left:\n%s", differences(before, after))
	}
}

// agents are the lines that the agent writes into the audit log.
var agents = regexp.MustCompile(`(?m)^.*"agent":\d+.*\n`)

// hashes are names of folders that belong to keys.
var hashes = regexp.MustCompile(`[0-9a-f]{64}`)

func read(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	must.OK(t, err)
	return string(b)
}

// shape is a state without what is made up anew each time.
func shape(state map[string]string) []string {
	var all []string
	for k, v := range state {
		kind, rest, _ := strings.Cut(k, " ")
		switch kind {
		case "slot":
			_, cert, _ := strings.Cut(v, " certificate")
			all = append(all, fmt.Sprint(k, " with a certificate: ", cert != ""))
		case "file":
			all = append(all, kind+" "+hashes.ReplaceAllString(path.Dir(rest), "*")+" *"+path.Ext(rest))
		case "object":
			all = append(all, kind+" "+path.Dir(rest))
		case "kubeconfig":
			all = append(all, fmt.Sprint(kind, " of ", strings.Count(v, "\n"), " lines"))
		default:
			if k == "PUK" && v != hsmtest.FakePUK {
				v = "of its own"
			}
			all = append(all, k+" "+v)
		}
	}
	slices.Sort(all)
	return all
}

// spend takes one try of a secret off a state.
func spend(state map[string]string, kind hsm.PINKind) {
	key := "PIN tries"
	if kind == hsm.PUK {
		key = "PUK tries"
	}
	left, _ := strconv.Atoi(state[key]) // State has written a number
	state[key] = strconv.Itoa(left - 1)
}

func differences(before, after map[string]string) string {
	var all []string
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if before[k] != after[k] {
			all = append(all, fmt.Sprintf("%s: %.300q, was %.300q", k, after[k], before[k]))
		}
	}
	return strings.Join(all, "\n")
}

// Enrolled returns the enrollment called name as another one, with its key and certificate.
// It is the caller's to sign and save.
func (w *World) Enrolled(t testing.TB, name, as string) enrollment.Enrollment {
	t.Helper()
	store := w.Env.Enrollments()
	en, err := store.Load(name)
	must.OK(t, err)
	chain, err := store.Certificate(en)
	must.OK(t, err)
	en.Name = as
	must.OK(t, store.SaveCertificate(en, chain))
	return en
}
