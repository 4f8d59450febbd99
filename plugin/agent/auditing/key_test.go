package auditing

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/desktop"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// lab is a key with the enrollments prod and other, and the agent's view of its policy.
type lab struct {
	t       *testing.T
	dirs    home.Dirs
	store   enrollment.Store
	key     *ecdsa.PrivateKey
	e       enrollment.Enrollment
	agent   *Policies
	lowered int
	before  string // text of the version before
	number  uint64
}

func newLab(t *testing.T) *lab {
	t.Helper()
	dir := t.TempDir()
	d, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: dir}[k] })
	check(t, err)
	check(t, d.Prepare())
	l := &lab{t: t, dirs: d, store: enrollment.NewStore(d)}
	l.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	hash, err := hsm.Fingerprint(l.key.Public())
	check(t, err)
	l.e = enrollment.Enrollment{Name: "prod", KeyHash: hash, Key: key(t), User: "jane",
		Cluster: cluster.Cluster{Server: "https://a:1"}}
	other := l.e
	other.Name = "other"
	check(t, errors.Join(l.store.Save(l.e), l.store.Save(other)))
	l.start()
	return l
}

// start has another agent run, which has nothing in memory.
func (l *lab) start() {
	log, err := audit.Open(audit.Path(l.dirs))
	check(l.t, err)
	l.t.Cleanup(func() { _ = log.Close() }) // the test may have closed the log
	l.agent = &Policies{Store: l.store, Log: slog.New(slog.DiscardHandler),
		Records:   NewRecords(log, audit.Path(l.dirs), agentPID, slog.New(slog.DiscardHandler)),
		Notify:    desktop.New(func(string) string { return "" }),
		OnLowered: func(hsm.URI) { l.lowered++ }}
}

// sign is the next version with the policy.
func (l *lab) sign(p consent.Policy, number uint64, before string) consent.Signed {
	l.t.Helper()
	v, err := consent.Next(l.key.Public(), number, before, p, time.Now())
	check(l.t, err)
	text, err := v.Text()
	check(l.t, err)
	signature, err := consent.Sign(l.key, text)
	check(l.t, err)
	return consent.Signed{Text: text, Signature: signature}
}

// set does what `kubehsm consent set` does.
func (l *lab) set(mode consent.Mode) {
	l.t.Helper()
	p := consent.Policy{Mode: mode}
	l.number++
	signed := l.sign(p, l.number, l.before)
	l.before = signed.Text
	for _, name := range []string{"prod", "other"} {
		l.append(name, signed, p)
		l.enroll(name, mode)
	}
	check(l.t, l.store.SavePolicy(l.e.KeyHash, signed))
}

func (l *lab) append(name string, s consent.Signed, p consent.Policy) {
	l.t.Helper()
	check(l.t, audit.Append(audit.Path(l.dirs), audit.Record{Event: audit.Policy, Reason: audit.PolicySet,
		Enrollment: name, Key: l.e.KeyHash, Token: Public(l.e.Key), Policy: p.String(),
		Statement: s.Text, Signature: s.Signature}))
}

func (l *lab) enroll(name string, mode consent.Mode) {
	l.t.Helper()
	e := l.e
	e.Name, e.Policy = name, mode
	check(l.t, l.store.Save(e))
}

func (l *lab) record() string { return filepath.Join(l.dirs.State, "policies", l.e.KeyHash+".json") }

// keep returns what puts a file of the state folder back as it is now.
func (l *lab) keep(path string) (restore func()) {
	l.t.Helper()
	b, err := os.ReadFile(path)
	check(l.t, err)
	return func() { check(l.t, os.WriteFile(path, b, 0o600)) }
}

func (l *lab) inForce() consent.Mode {
	l.t.Helper()
	e, err := l.store.Load("prod")
	check(l.t, err)
	p, _ := l.agent.Of(e)
	if len(p.Parts()) > 1 {
		l.t.Errorf("in force is %s", p)
	}
	if !p.Asks() {
		return consent.Session
	}
	return p.Mode
}

// TestPolicyRecordAttacked: whatever a program without the key does to the record, to the
// enrollments and to the log, no policy comes into force that is less strict than the one that
// was signed last. What the record lacks is told with the next prompt.
func TestPolicyRecordAttacked(t *testing.T) {
	session := consent.Policy{Mode: consent.Session}
	for name, c := range map[string]struct {
		attack func(*lab)
		told   audit.Problem
	}{
		"the record is removed": {func(l *lab) { check(l.t, os.Remove(l.record())) }, audit.RecordMissing},
		"the record is truncated": {func(l *lab) {
			check(l.t, os.Truncate(l.record(), 20))
		}, audit.RecordAltered},
		"the text is altered": {func(l *lab) {
			s, err := l.store.Policy(l.e.KeyHash)
			check(l.t, err)
			s.Text = strings.Replace(s.Text, `"policy":"writes"`, `"policy":"session"`, 1)
			check(l.t, l.store.SavePolicy(l.e.KeyHash, s))
		}, audit.RecordAltered},
		"the number is raised without a signature": {func(l *lab) {
			s, err := l.store.Policy(l.e.KeyHash)
			check(l.t, err)
			s.Text = strings.Replace(s.Text, `"number":3`, `"number":9`, 1)
			check(l.t, l.store.SavePolicy(l.e.KeyHash, s))
		}, audit.RecordAltered},
		"another key's record is renamed": {func(l *lab) {
			other := newLab(l.t)
			other.set(consent.Session)
			b, err := os.ReadFile(other.record())
			check(l.t, err)
			check(l.t, os.WriteFile(l.record(), b, 0o600))
		}, audit.RecordAltered},
		"a link to another place": {func(l *lab) {
			old := filepath.Join(l.t.TempDir(), "old.json")
			check(l.t, os.WriteFile(old, []byte("{}"), 0o600))
			check(l.t, errors.Join(os.Remove(l.record()), os.Symlink(old, l.record())))
		}, audit.RecordAltered},
		"a version is signed ahead, and used later": {func(l *lab) {
			check(l.t, l.store.SavePolicy(l.e.KeyHash, l.sign(session, 99, "what nobody knew")))
		}, audit.RecordAltered},
		"a version that was signed ahead is in the log too": {func(l *lab) {
			ahead := l.sign(session, 99, "what nobody knew")
			l.append("prod", ahead, session)
			l.append("other", ahead, session)
			check(l.t, l.store.SavePolicy(l.e.KeyHash, ahead))
		}, audit.RecordAltered},
		"a version of that number is in the log too": {func(l *lab) {
			twin := l.sign(session, 3, "what nobody knew")
			l.append("prod", twin, session)
			l.append("other", twin, session)
			check(l.t, l.store.SavePolicy(l.e.KeyHash, twin))
		}, audit.RecordAltered},
		"a version with the last number": {func(l *lab) {
			ahead := l.sign(session, 1<<53, "what nobody knew")
			l.append("prod", ahead, session)
			check(l.t, l.store.SavePolicy(l.e.KeyHash, ahead))
		}, audit.RecordAltered},
		"the log says that it was lowered": {func(l *lab) {
			l.append("prod", consent.Signed{}, session)
			l.append("other", consent.Signed{}, session)
		}, audit.NoProblem},
		"a statement of consent in its place": {func(l *lab) {
			text, err := consent.Statement{Enrollment: "prod"}.Text()
			check(l.t, err)
			signature, err := consent.Sign(l.key, text)
			check(l.t, err)
			check(l.t, l.store.SavePolicy(l.e.KeyHash, consent.Signed{Text: text, Signature: signature}))
		}, audit.RecordAltered},
	} {
		for _, running := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", under a running agent", false: ""}[running], func(t *testing.T) {
				l := newLab(t)
				l.set(consent.Writes)
				l.set(consent.Session)
				l.set(consent.Writes)
				if running && l.inForce() != consent.Writes {
					t.Fatal("writes is not in force")
				}
				c.attack(l)
				l.enroll("prod", consent.Session)
				l.enroll("other", consent.Session)
				if !running {
					l.start()
				}
				if got := l.inForce(); got != consent.Writes {
					t.Errorf("in force is %s", got)
				}
				notice, _ := l.agent.Notice(l.e.Key)
				if tells := strings.Contains(notice, "The signed consent policy of the key"); tells != (c.told != "") ||
					!strings.Contains(notice, c.told.Words()) && tells {
					t.Errorf("told %q", notice)
				}
				n := len(read(t, audit.Path(l.dirs)))
				l.inForce()
				if more := len(read(t, audit.Path(l.dirs))); more != n {
					t.Errorf("%d records more for what is known", more-n)
				}
			})
		}
	}
}

// TestPolicyRolledBack: an older copy of the record, with older enrollments, and an older log
// while an agent remembers, bring no policy of before back.
func TestPolicyRolledBack(t *testing.T) {
	for name, c := range map[string]struct{ log, restart bool }{
		"record and enrollments":                   {},
		"record and enrollments, another agent":    {restart: true},
		"the log too, while an agent runs":         {log: true},
		"the log too, and the agent is made to go": {log: true, restart: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.set(consent.Session)
			log, record := l.keep(audit.Path(l.dirs)), l.keep(l.record())
			l.set(consent.Writes)
			if got := l.inForce(); got != consent.Writes {
				t.Fatalf("in force is %s", got)
			}
			record()
			l.enroll("prod", consent.Session)
			l.enroll("other", consent.Session)
			if c.log {
				log()
			}
			if got := l.inForce(); got != consent.Writes { // the agent notices, and puts on record what it knows
				t.Errorf("in force is %s", got)
			}
			if c.restart {
				l.start()
			}
			if got := l.inForce(); got != consent.Writes {
				t.Errorf("in force is %s", got)
			}
			notice, _ := l.agent.Notice(l.e.Key)
			if !strings.Contains(notice, "is older than the one that the audit log knows") {
				t.Errorf("told %q", notice)
			}
		})
	}
}

// TestPolicyIsMended: when an older record was noticed, a version that is signed after it and
// less strict is told by the agent that runs.
func TestPolicyIsMended(t *testing.T) {
	l := newLab(t)
	l.set(consent.Writes)
	record := l.keep(l.record())
	l.set(consent.Writes)
	l.inForce()
	record()
	l.inForce()
	_, seen := l.agent.Notice(l.e.Key)
	seen()
	l.number++
	p := consent.Policy{Mode: consent.Writes}
	signed := l.sign(p, l.number, l.before)
	check(t, audit.Append(audit.Path(l.dirs), audit.Record{Event: audit.Policy, Reason: audit.PolicySet,
		Enrollment: "prod", Key: l.e.KeyHash, Token: Public(l.e.Key), Was: "always", Policy: p.String(), Lowered: true,
		Statement: signed.Text, Signature: signed.Signature}))
	check(t, l.store.SavePolicy(l.e.KeyHash, signed))
	if got := l.inForce(); got != consent.Writes {
		t.Errorf("in force is %s", got)
	}
	if notice, _ := l.agent.Notice(l.e.Key); !strings.Contains(notice, "less strict") {
		t.Errorf("told %q", notice)
	}
}

// TestPolicyIsTheKeys: a version is for all enrollments of the key, a new one too. Unsigned, an
// enrollment can make it stricter.
func TestPolicyIsTheKeys(t *testing.T) {
	l := newLab(t)
	l.set(consent.Writes)
	third := l.e
	third.Name = "third"
	check(t, l.store.Save(third))
	if p, others := l.agent.Of(third); p.Mode != consent.Writes || len(others) != 2 {
		t.Errorf("%s for a new enrollment beside %d", p, len(others))
	}
	third.Policy = consent.Always
	check(t, l.store.Save(third))
	if got := l.inForce(); got != consent.Always {
		t.Errorf("in force is %s", got)
	}
	check(t, l.store.Delete("third"))
	check(t, l.store.Delete("other"))
	if got := l.inForce(); got != consent.Writes {
		t.Errorf("in force is %s", got)
	}
	// A file that lowers the policy of an enrollment changes nothing, so that nothing is locked.
	l.lowered = 0
	l.enroll("prod", consent.Session)
	if got := l.inForce(); got != consent.Writes || l.lowered != 0 {
		t.Errorf("in force is %s, lowered %d times", got, l.lowered)
	}
	l.set(consent.Session) // the key has signed it
	check(t, l.store.Delete("other"))
	if got := l.inForce(); got != consent.Session || l.lowered != 0 {
		t.Errorf("in force is %s, lowered %d times", got, l.lowered)
	}
}

// TestPolicyOutlivesTheLogsFiles: a version, and the strictest policy, are written again in each
// new file of the log.
func TestPolicyOutlivesTheLogsFiles(t *testing.T) {
	l := newLab(t)
	l.set(consent.Always)
	l.set(consent.Session)
	if got := l.inForce(); got != consent.Session {
		t.Fatalf("in force is %s", got)
	}
	check(t, os.Remove(audit.Path(l.dirs)))
	l.agent.Records.Recover()
	check(t, os.Remove(l.record()))
	l.start()
	if got := l.inForce(); got != consent.Always {
		t.Errorf("in force is %s", got)
	}
}

// TestNoticeTellsOfLowering: nobody has a policy's lowering go untold by further changes, nor
// by what stands in the policy.
func TestNoticeTellsOfLowering(t *testing.T) {
	s := &Policies{known: audit.NewKnown()}
	change := func(policy, was string, lowered bool) {
		n := len(s.known.Enrollments)
		if e := s.known.Enrollments["prod"]; e != nil {
			n = len(e.Untold)
		}
		s.known.Follow(audit.Record{Time: time.Unix(int64(1e9+n), 0), Event: audit.Policy, Reason: audit.PolicyFound,
			Enrollment: "prod", Token: Public(key(t)), Policy: policy, Was: was, Lowered: lowered})
	}
	long := "rules: resources=" + strings.Repeat("x", 1500)
	change("session", long, true)
	for range 10 {
		change(long, "always", false)
	}
	told, _ := s.Notice(key(t))
	if first, _, _ := strings.Cut(told, ". "); !strings.Contains(first, "to session, which is less strict") ||
		strings.Count(told, "changed in its file") != maxNotices || !strings.Contains(told, "8 more changes") || len(told) > 1000 {
		t.Errorf("%d bytes: %s", len(told), told)
	}
}
