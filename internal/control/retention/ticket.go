package retention

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// Ticket is all that another installation needs, beside credentials for the site, to control a
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
	// Run has its submission. The last attempt is the one that computes.
	Run      state.Run       `json:"run"`
	Attempts []state.Attempt `json:"attempts"`
	// Key is that of its nodes.
	Key []byte `json:"key"`
	// Digest is that of the sealed ticket, which the run's site has on record.
	Digest string `json:"-"`
}

// TicketDigest returns the digest of a sealed ticket.
func TicketDigest(sealed []byte) string {
	sum := sha256.Sum256(sealed)
	return hex.EncodeToString(sum[:])
}

const (
	ticketVersion = 1
	// MostTicket bounds a sealed ticket, in bytes.
	MostTicket = MostRecord
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

// SealTicket encrypts a ticket, so that nobody without the key can read or change it.
func SealTicket(t Ticket, key string) ([]byte, error) {
	if err := CheckTicketKey(key); err != nil {
		return nil, err
	}
	t.Version = ticketVersion
	raw, err := json.Marshal(t)
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
	if len(sealed) > MostTicket {
		return nil, &core.Error{Kind: core.Unsupported, Op: "seal the ticket of run", Object: t.Run.ID, Err: fmt.Errorf("it has %d bytes, at most %d are read", len(sealed), MostTicket), Remedy: "Shorten the Beefile."}
	}
	return sealed, nil
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

// OpenTicket decrypts the ticket of a file, whose name is for messages.
func OpenTicket(file string, sealed []byte, key string) (Ticket, error) {
	fail := func(kind core.Kind, err error, remedy string) (Ticket, error) {
		return Ticket{}, &core.Error{Kind: kind, Op: opTicket, Object: file, Err: err, Remedy: remedy}
	}
	if err := CheckTicketKey(key); err != nil {
		return Ticket{}, err
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
		return Ticket{}, err
	}
	raw, err := seal.Open(nil, nil, sealed[head:], sealed[:head])
	if err != nil {
		return fail(core.Invalid, errors.New("the key is another one, or the file was changed"), "Set BEE_TICKET_KEY to the key that the ticket was sealed with.")
	}
	var t Ticket
	if err := core.DecodeJSON(raw, &t); err != nil {
		return fail(core.Invalid, err, "No bee has sealed it: do not use it.")
	}
	if t.Version != ticketVersion {
		return fail(core.Unsupported, fmt.Errorf("it has version %d, this bee knows %d", t.Version, ticketVersion), "Use the version of bee that sealed it.")
	}
	if !state.IsID(t.Run.ID) || !state.IsID(t.Installation) || len(t.Attempts) == 0 {
		return fail(core.Invalid, fmt.Errorf("it is of run %q, with %d attempts", core.Printable(t.Run.ID, 80), len(t.Attempts)), "No bee has sealed it: do not use it.")
	}
	t.Digest = TicketDigest(sealed)
	return t, nil
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
	for i, a := range earlier {
		a.Lease, a.State, a.Autostart = nil, state.Closed, state.NoAutostart
		earlier[i] = a
	}
	return open, earlier, nil
}
