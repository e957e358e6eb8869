package retention

import (
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// Ticket is all that another installation needs, beside credentials for the site, to control one
// run that computes: to follow, fetch and stop it. Of sites it has only names and addresses, and of
// secrets only where they come from.
type Ticket struct {
	Version int `json:"version"`
	// Installation is the one that began the run, on Machine.
	Installation string `json:"installation"`
	Machine      string `json:"machine"`
	// Dir is the directory of the Beefile there. Paths below it are below the reader's
	// working directory.
	Dir string `json:"dir"`
	// Run has its submission. The last attempt is the one that computes, unless the run was
	// over before the ticket was made, when Run has its end, or had not begun: see Waits.
	Run      state.Run       `json:"run,omitzero"`
	Attempts []state.Attempt `json:"attempts,omitempty"`
	// Key is that of its nodes.
	Key []byte `json:"key,omitempty"`
	// Digest is that of the sealed ticket, which the run's site has on record.
	Digest string `json:"-"`
	// Several: other runs are in the sealed ticket, too, and are adopted with this one.
	Several bool `json:"-"`
}

// sealedTicket is the content of a sealed ticket: the Ticket of a run, or what is common to several
// runs, and a Ticket of each: of the cases of an array, or of the runs of several jobs.
type sealedTicket struct {
	Ticket
	Cases []Ticket `json:"cases,omitempty"`
}

// Over reports whether the run was over before its ticket was made.
func (t Ticket) Over() bool { return t.Run.State.Final() }

// Waits reports whether the run had not begun when its ticket was made, as it waits for others of
// the same ticket.
func (t Ticket) Waits() bool { return t.Run.State == state.Queued }

// Case returns the place of the run in its array, whose ticket it is a part of; zero: it is in none.
// One that has begun does not wait for its turn.
func (t Ticket) Case() state.Case {
	of := state.Case{Array: t.Run.Case.Array, Name: Plain(t.Run.Case.Name), Number: t.Run.Case.Number}
	if t.Waits() {
		of.AtOnce = t.Run.Case.AtOnce
	}
	return of
}

// Job returns the id of the array that the run is a case of, or else of the run.
func (t Ticket) Job() string { return t.Run.Job() }

// Site returns the name of the site of the last attempt; "": there is none.
func (t Ticket) Site() string {
	if len(t.Attempts) == 0 {
		return ""
	}
	return slices.MaxFunc(t.Attempts, func(a, b state.Attempt) int { return cmp.Compare(a.N, b.N) }).Site
}

// TicketDigest returns the digest of a sealed ticket.
func TicketDigest(sealed []byte) string {
	sum := sha256.Sum256(sealed)
	return hex.EncodeToString(sum[:])
}

const (
	ticketVersion = 1
	// arrayVersion is that of the ticket of an array.
	arrayVersion = 2
	// jobsVersion is that of the ticket of several jobs, which may have runs that wait.
	jobsVersion = 3
	// mostSealedCases bounds the runs of a ticket, and the numbers of cases.
	mostSealedCases = 100_000
	// MostTicket bounds a sealed ticket, in bytes.
	MostTicket = MostRecord
	// LeastSealedRun is the least that a run takes of a ticket beside its submission, in bytes, if it
	// is not over. Names of hosts and further attempts add to it.
	LeastSealedRun = 512
	// ticketMark begins a sealed ticket. Salt, nonce and the sealed content follow.
	ticketMark = "bee ticket 1\n"
	saltSize   = 16
	// keyRounds are those of PBKDF2 with SHA-256 that OWASP recommends.
	keyRounds = 600_000
	// shortestKey is the least length of the key that a user gives, in bytes.
	shortestKey = 20
)

const opTicket = "open the ticket"

// CheckTicketKey refuses a key that can be guessed.
func CheckTicketKey(key string) error {
	if len(key) >= shortestKey {
		return nil
	}
	return &core.Error{
		Kind: core.Invalid, Op: "read the key of tickets", Object: "BEE_TICKET_KEY", Err: fmt.Errorf("it has %d characters, expected %d at least", len(key), shortestKey),
		Remedy: "Make one with `openssl rand -hex 32`, and give it to both machines as a secret variable.",
	}
}

// SealTicket encrypts the ticket of a run, or those of the cases of an array or of several jobs as
// one, so that nobody without the key can read or change it. A run that waits for others follows them.
func SealTicket(tickets []Ticket, key string) ([]byte, error) {
	if err := CheckTicketKey(key); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(contentOf(tickets))
	if err != nil {
		return nil, err
	}
	salt := make([]byte, saltSize)
	rand.Read(salt)
	seal, err := sealOf(key, salt)
	if err != nil {
		return nil, err
	}
	head := append([]byte(ticketMark), salt...)
	sealed := seal.Seal(head, nil, raw, head)
	if err := CheckTicketSize(tickets[0].Run.Name, len(sealed)); err != nil {
		return nil, err
	}
	return sealed, nil
}

// CheckTicketSize refuses a ticket that is too large to be read, by its size in bytes.
func CheckTicketSize(name string, size int) error {
	if size <= MostTicket {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "seal the ticket of", Object: name, Err: fmt.Errorf("it has %d bytes, at most %d are read", size, MostTicket),
		Remedy: "Shorten the Beefile, or submit fewer cases by --cases.",
	}
}

// contentOf returns the content of the ticket of a run, of an array, or of several jobs.
func contentOf(tickets []Ticket) sealedTicket {
	first, version := tickets[0], arrayVersion
	if len(tickets) == 1 && first.Run.Case.Array == "" {
		first.Version = ticketVersion
		return sealedTicket{Ticket: first}
	}
	if slices.ContainsFunc(tickets, func(t Ticket) bool { return t.Waits() || t.Run.Case.Array == "" || t.Job() != first.Job() }) {
		version = jobsVersion
	}
	content := sealedTicket{Ticket: Ticket{Version: version, Installation: first.Installation, Machine: first.Machine, Dir: first.Dir}}
	for _, t := range tickets {
		content.Cases = append(content.Cases, Ticket{Run: t.Run, Attempts: t.Attempts, Key: t.Key})
	}
	return content
}

// sealOf returns the cipher of a key. Each salt makes another one, so that its nonces, which it
// makes by chance, are of one ticket alone.
func sealOf(key string, salt []byte) (cipher.AEAD, error) {
	derived, err := pbkdf2.Key(sha256.New, key, salt, keyRounds, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// OpenTicket decrypts the ticket of a file, whose name is for messages. It returns the ticket of a
// run, those of the cases of one array, or those of the runs of several jobs.
func OpenTicket(file string, sealed []byte, key string) ([]Ticket, error) {
	fail := func(kind core.Kind, err error, remedy string) ([]Ticket, error) {
		return nil, &core.Error{Kind: kind, Op: opTicket, Object: file, Err: err, Remedy: remedy}
	}
	if err := CheckTicketKey(key); err != nil {
		return nil, err
	}
	head := len(ticketMark) + saltSize
	switch {
	case len(sealed) == 0:
		return fail(core.Invalid, errors.New("it is empty: the command that was to seal it has not ended, or has failed"), "See how `bee run --ticket` ended.")
	case len(sealed) > MostTicket || len(sealed) < head || !bytes.HasPrefix(sealed, []byte(ticketMark)):
		return fail(core.Invalid, errors.New("it is no ticket that this bee can read"), "Name the file of `bee run --ticket`, and use the same version of bee.")
	}
	seal, err := sealOf(key, sealed[len(ticketMark):head])
	if err != nil {
		return nil, err
	}
	raw, err := seal.Open(nil, nil, sealed[head:], sealed[:head])
	if err != nil {
		return fail(core.Invalid, errors.New("the key is another one, or the file was changed"), "Set BEE_TICKET_KEY to the key that the ticket was sealed with.")
	}
	var content sealedTicket
	if err := core.DecodeJSON(raw, &content); err != nil {
		return fail(core.Invalid, err, notSealed)
	}
	if content.Version < ticketVersion || content.Version > jobsVersion {
		return fail(core.Unsupported, fmt.Errorf("it has version %d, this bee knows %d", content.Version, jobsVersion), "Use the version of bee that sealed it.")
	}
	tickets, err := content.tickets()
	if err != nil {
		return fail(core.Invalid, err, notSealed)
	}
	for i := range tickets {
		tickets[i].Digest = TicketDigest(sealed)
	}
	return tickets, nil
}

// notSealed is the remedy for a ticket that cannot be.
const notSealed = "No bee has sealed it: do not use it."

// tickets returns those of the content, which are checked.
func (s sealedTicket) tickets() ([]Ticket, error) {
	if !state.IsID(s.Installation) {
		return nil, fmt.Errorf("it is of installation %q", core.Printable(s.Installation, 80))
	}
	if s.Version == ticketVersion {
		if !state.IsID(s.Run.ID) || len(s.Attempts) == 0 || s.Over() || s.Waits() || s.Run.Case != (state.Case{}) || len(s.Cases) > 0 {
			return nil, fmt.Errorf("it is of run %q, with %d attempts and %d cases", core.Printable(s.Run.ID, 80), len(s.Attempts), len(s.Cases))
		}
		return []Ticket{s.Ticket}, nil
	}
	if len(s.Cases) == 0 || len(s.Cases) > mostSealedCases {
		return nil, fmt.Errorf("it is of several runs, and has %d", len(s.Cases))
	}
	tickets, ids, numbers, live := make([]Ticket, len(s.Cases)), map[string]bool{}, map[string]map[int]bool{}, false
	for i, t := range s.Cases {
		if err := s.check(t); err != nil {
			return nil, err
		}
		of := t.Run.Case
		if ids[t.Run.ID] || numbers[of.Array][of.Number] {
			return nil, fmt.Errorf("run %s or its number %d is there twice", t.Run.ID, of.Number)
		}
		ids[t.Run.ID], live = true, live || !t.Over() && !t.Waits()
		if of.Array != "" {
			if numbers[of.Array] == nil {
				numbers[of.Array] = map[int]bool{}
			}
			numbers[of.Array][of.Number] = true
		}
		t.Version, t.Installation, t.Machine, t.Dir, t.Several = s.Version, s.Installation, s.Machine, s.Dir, true
		tickets[i] = t
	}
	for array := range numbers {
		if ids[array] {
			return nil, fmt.Errorf("%q of it is an array and a run", array)
		}
	}
	if !live {
		return nil, errors.New("no run of it computes")
	}
	return tickets, nil
}

// check refuses a run that cannot be one of several.
func (s sealedTicket) check(t Ticket) error {
	of := t.Run.Case
	switch {
	case !state.IsID(t.Run.ID):
		return fmt.Errorf("it has run %q", core.Printable(t.Run.ID, 80))
	case s.Version == arrayVersion && of.Array != s.Cases[0].Run.Case.Array, s.Version == arrayVersion && t.Waits():
		return fmt.Errorf("run %s is none of array %q that has begun", t.Run.ID, core.Printable(s.Cases[0].Run.Case.Array, 80))
	case of == (state.Case{}) && s.Version == jobsVersion: // a job that is one run
	case !state.IsID(of.Array) || of.Pack != "" || of.Name == "" || of.Number < 1 || of.Number > mostSealedCases || of.AtOnce < 0 || of.AtOnce > mostSealedCases:
		return fmt.Errorf("run %s cannot be case %d of array %q", t.Run.ID, of.Number, core.Printable(of.Array, 80))
	}
	switch {
	case t.Waits() && (len(t.Attempts) > 0 || len(t.Key) > 0):
		return fmt.Errorf("run %s waits, and has begun", t.Run.ID)
	case !t.Waits() && !t.Over() && len(t.Attempts) == 0:
		return fmt.Errorf("run %s has not begun", t.Run.ID)
	}
	return nil
}

// End returns the run of a ticket as it ended before that was made, and its attempts.
func (t Ticket) End(run state.Run) (state.Run, []state.Attempt, error) {
	attempts, err := ForeignAttempts(run.ID, t.Attempts)
	if err != nil || !t.Over() {
		return run, nil, cmp.Or(err, ForeignError(run.ID, errors.New("it is not over")))
	}
	run.State, run.Suspended, run.ExitCode, run.Ended = t.Run.State, "", t.Run.ExitCode, Began(t.Run.Ended)
	run.Kind, run.Message, run.Remedy = Plain(t.Run.Kind), Plain(t.Run.Message), Plain(t.Run.Remedy)
	return run, closed(attempts), nil
}

// Closed returns the attempts of the run as nothing of them is left on a site.
func (t Ticket) Closed() ([]state.Attempt, error) {
	attempts, err := ForeignAttempts(t.Run.ID, t.Attempts)
	return closed(attempts), err
}

// closed returns attempts of another installation of which nothing is left on a site.
func closed(attempts []state.Attempt) []state.Attempt {
	for i := range attempts {
		a := &attempts[i]
		a.Lease, a.State, a.Autostart = nil, state.Closed, state.NoAutostart
	}
	return attempts
}

// OpenAttempt returns the attempt of a ticket that computes, with what a controller needs to
// continue it, and the earlier ones. Its lease is as the other installation has recorded it.
func (t Ticket) OpenAttempt() (open state.Attempt, earlier []state.Attempt, err error) {
	list, err := ForeignAttempts(t.Run.ID, t.Attempts)
	if err == nil && len(list) == 0 {
		err = ForeignError(t.Run.ID, errors.New("it has no attempt"))
	}
	if err != nil {
		return open, nil, err
	}
	open, earlier = list[len(list)-1], list[:len(list)-1]
	var last state.Attempt
	for _, a := range t.Attempts {
		if a.N == open.N {
			last = a
		}
	}
	waits := open.State == state.InQueue && last.Autostart.MayStart()
	computes := open.State == state.Starting || open.State == state.Computing || open.State == state.Checkpointing
	if !waits && !computes || last.Lease == nil || last.Lease.Owner.Run != t.Run.ID || last.Lease.Owner.Attempt != open.N || last.Lease.Owner.User != t.Installation {
		return open, nil, ForeignError(t.Run.ID, errors.New("its last attempt does not compute, or its lease is of another one"))
	}
	if waits {
		open.Autostart = state.Enabling
	}
	open.Lease, open.Key = last.Lease, t.Key
	open.Record = state.Record{
		From: open.From, Margin: open.Margin, TaskBegan: computes, Protocol: last.Protocol,
		Granted: moment(last.Granted), SiteGranted: moment(last.SiteGranted), AutostartAt: moment(last.AutostartAt),
		Phases: map[core.Phase]time.Duration{},
	}
	return open, closed(earlier), nil
}
