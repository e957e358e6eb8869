package wire

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"time"
)

// KeySize is the length of a Key, in bytes.
const KeySize = 32

// Key is what the two ends of a connection have in common and nobody else knows. Each
// end proves by TLS that it has the key, under its own name.
type Key []byte

// NewKey makes a key.
func NewKey() Key {
	k := make(Key, KeySize)
	rand.Read(k)
	return k
}

// HandshakeTimeout is how long a connection may take to prove what it is.
const HandshakeTimeout = 10 * time.Second

var errNotProven = errors.New("the other end does not have the key of this attempt")

// Client makes a connection secure that this end has dialled, as own, with the one
// that is named peer, and with nobody else. A connection that fails is closed.
func (k Key) Client(ctx context.Context, c net.Conn, own, peer string) (*tls.Conn, error) {
	config, err := k.config(own, peer)
	if err != nil {
		c.Close()
		return nil, err
	}
	s := tls.Client(c, config)
	if err := k.shake(ctx, s); err != nil {
		return nil, err
	}
	// TLS 1.3 alone would not report whether the other end has taken this one's proof.
	if err := during(ctx, s, func() error { return hear(s) }); err != nil {
		return nil, unproven(err)
	}
	return s, nil
}

// Server is Client for the end that was dialled.
func (k Key) Server(ctx context.Context, c net.Conn, own, peer string) (*tls.Conn, error) {
	config, err := k.config(own, peer)
	if err != nil {
		c.Close()
		return nil, err
	}
	s := tls.Server(c, config)
	if err := k.shake(ctx, s); err != nil {
		return nil, err
	}
	if err := during(ctx, s, func() error { _, err := s.Write([]byte{1}); return err }); err != nil {
		return nil, err
	}
	return s, nil
}

func hear(c net.Conn) error {
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func (k Key) shake(ctx context.Context, s *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	if err := s.HandshakeContext(ctx); err != nil {
		s.Close()
		return unproven(err)
	}
	return nil
}

// unproven distinguishes an end that answers otherwise than by the key from one that is lost.
func unproven(err error) error {
	if errors.Is(err, errNotProven) {
		return err
	}
	if _, is := errors.AsType[tls.RecordHeaderError](err); is {
		return fmt.Errorf("%w: %w", errNotProven, err)
	}
	if refused, is := errors.AsType[*net.OpError](err); is && refused.Op == "remote error" { // crypto/tls's word for an alert
		return fmt.Errorf("%w: %w", errNotProven, err)
	}
	return err
}

// NotProven reports whether a connection failed as its other end has not the key.
func NotProven(err error) bool { return errors.Is(err, errNotProven) }

func (k Key) config(own, peer string) (*tls.Config, error) {
	if len(k) != KeySize {
		return nil, fmt.Errorf("the key of this attempt has %d bytes, and not %d", len(k), KeySize)
	}
	private := k.private(own)
	moment := time.Unix(0, 0)
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: moment, NotAfter: moment}
	raw, err := x509.CreateCertificate(rand.Reader, t, t, private.Public(), private)
	if err != nil {
		return nil, err
	}
	known, _ := k.private(peer).Public().(ed25519.PublicKey)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519}, SessionTicketsDisabled: true,
		Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: private}}, ClientAuth: tls.RequireAnyClientCert,
		// The certificate carries a public key, and that key alone counts.
		InsecureSkipVerify: true, // see VerifyConnection
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) != 1 || !known.Equal(s.PeerCertificates[0].PublicKey) {
				return errNotProven
			}
			return nil
		},
	}, nil
}

// private is the private key of an end of that name.
func (k Key) private(name string) ed25519.PrivateKey {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(name))
	return ed25519.NewKeyFromSeed(mac.Sum(nil))
}

// Prove makes sure, both ways, that the other end of a connection of one host has the
// key, under its name, and leaves the connection as it is: nobody comes between there.
func (k Key) Prove(c net.Conn, own, peer string) error {
	if len(k) != KeySize {
		return fmt.Errorf("the key has %d bytes, and not %d", len(k), KeySize)
	}
	mine, theirs, proof := NewKey(), make([]byte, KeySize), make([]byte, sha256.Size)
	if _, err := c.Write(mine); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, theirs); err != nil {
		return err
	}
	if _, err := c.Write(k.proof(own, theirs)); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, proof); err != nil {
		return err
	}
	if !hmac.Equal(proof, k.proof(peer, mine)) {
		return errNotProven
	}
	return nil
}

// proof answers a challenge under a name.
func (k Key) proof(name string, challenge []byte) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write(challenge)
	mac.Write([]byte(name))
	return mac.Sum(nil)
}
