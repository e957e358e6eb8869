package notify

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// mailbox is what a mail server was told of: each login, sender, receiver and message.
type mailbox struct{ got []string }

// NewSession implements smtp.Backend.
func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return m, nil }

// AuthMechanisms implements smtp.AuthSession.
func (m *mailbox) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth implements smtp.AuthSession.
func (m *mailbox) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		m.got = append(m.got, "login of "+user)
		if password != "pass word" {
			return errors.New("the password " + password + " is wrong")
		}
		return nil
	}), nil
}

// Mail implements smtp.Session.
func (m *mailbox) Mail(from string, _ *smtp.MailOptions) error {
	m.got = append(m.got, "from "+from)
	return nil
}

// Rcpt implements smtp.Session.
func (m *mailbox) Rcpt(to string, _ *smtp.RcptOptions) error {
	m.got = append(m.got, "to "+to)
	return nil
}

// Data implements smtp.Session.
func (m *mailbox) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	m.got = append(m.got, string(text))
	return err
}

// Reset implements smtp.Session.
func (m *mailbox) Reset() {}

// Logout implements smtp.Session.
func (m *mailbox) Logout() error { return nil }

// TestMailServer: mail goes to a mail server by TLS, after its certificate was checked, and by
// nothing else.
func TestMailServer(t *testing.T) {
	https := httptest.NewTLSServer(nil) // for its certificate
	defer https.Close()
	roots := x509.NewCertPool()
	roots.AddCert(https.Certificate())
	config := &tls.Config{Certificates: https.TLS.Certificates, MinVersion: tls.VersionTLS12}
	for name, c := range map[string]struct {
		implicit, starttls, stranger bool
		password, fails              string
	}{
		"TLS from the beginning": {implicit: true, password: "pass word"},
		"STARTTLS":               {starttls: true, password: "pass word"},
		"no TLS":                 {password: "pass word", fails: "no TLS"},
		"another certificate":    {starttls: true, stranger: true, password: "pass word", fails: "certificate"},
		"a wrong password":       {starttls: true, password: "guess", fails: "password"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			box := &mailbox{}
			server := smtp.NewServer(box)
			server.ErrorLog = log.New(io.Discard, "", 0)
			if c.starttls {
				server.TLSConfig = config
			}
			address := l.Addr().String()
			if c.implicit {
				l = tls.NewListener(l, config)
			}
			done := make(chan struct{})
			go func() { defer close(done); server.Serve(l) }() //nolint:errcheck // it ends by Close

			to := &spec.SMTP{Server: address, User: "ann", Password: &spec.Secret{Env: c.password}, From: "bee@example.org"}
			n := notifierOf(t, state.Run{State: state.Failed}, spec.Notify{Mail: "ann@example.org", SMTP: to})
			if n.roots = roots; c.stranger {
				n.roots = x509.NewCertPool()
			}
			if c.implicit {
				_, n.tlsPort = to.Address()
			}
			f, err := n.find(t.Context())
			e, is := n.next(f.events, 0, 0)
			if err != nil || !is {
				t.Fatalf("%v: no notification of %+v", err, f.events)
			}
			err = n.send(t.Context(), n.Receivers[0], f.run, e)
			server.Shutdown(t.Context()) //nolint:errcheck // it may have ended
			<-done
			got := strings.Join(box.got, "\n")
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) || strings.Contains(got, "from ") {
					t.Errorf("%v, after %s", err, got)
				}
				return
			}
			for _, want := range []string{"login of ann", "from bee@example.org", "to ann@example.org", "From: bee@example.org\r\n", "Subject: bee: run pi (aaaabbbb): ended, failed\r\n", "X-Evil: no\r\n"} {
				if err != nil || !strings.Contains(got, want) {
					t.Fatalf("%v: no %q in\n%s", err, want, got)
				}
			}
		})
	}
}
