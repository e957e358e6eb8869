package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/smtp"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// smtpTime bounds one delivery to a mail server.
const smtpTime = time.Minute

// submitMail passes a message to the mail server of a receiver.
func (n *Notifier) submitMail(ctx context.Context, r Receiver, run state.Run, id string, e notification, text string) error {
	password := ""
	if from := r.SMTP.Password; from != nil {
		var err error
		if password, err = n.Secret(ctx, *from); err != nil {
			return fmt.Errorf("read the password for the mail server: %w", err)
		}
		if password == "" {
			return errors.New("the password for the mail server is empty")
		}
	}
	sender := r.SMTP.Sender(r.Mail)
	return n.deliver(ctx, r.SMTP, password, sender, r.Mail, message(sender, r.Mail, run, id, e, text))
}

// deliver passes a message to a mail server, as net/smtp speaks with it. Its certificate is
// checked before a password or a message is sent.
func (n *Notifier) deliver(ctx context.Context, server *spec.SMTP, password, from, to string, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, smtpTime)
	defer cancel()
	host, port := server.Address()
	config := &tls.Config{ServerName: host, RootCAs: n.roots, MinVersion: tls.VersionTLS12}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if port == spec.SMTPPort || port == n.tlsPort {
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return err
		}
		conn = secured
	}
	err = submit(conn, host, config, server.User, password, from, to, text)
	if ctx.Err() != nil {
		return fmt.Errorf("the mail server did not take the mail: %w", context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("the mail server %s: %s", host, core.Printable(err.Error(), maxAnswer))
	}
	return nil
}

func submit(conn net.Conn, host string, config *tls.Config, user, password, from, to string, text []byte) error {
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return err
	}
	if _, secured := c.TLSConnectionState(); !secured {
		if has, _ := c.Extension("STARTTLS"); !has {
			return errors.New("it offers no TLS, without which nothing is sent")
		}
		if err := c.StartTLS(config); err != nil {
			return err
		}
	}
	if user != "" {
		if err := c.Auth(smtp.PlainAuth("", user, password, host)); err != nil {
			return errors.New(strings.ReplaceAll(err.Error(), password, "…"))
		}
	}
	if err := c.Mail(from); err != nil {
		return err
	}
	if err := c.Rcpt(to); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil { // now it has the mail
		return err
	}
	core.BestEffort(c.Quit()) // the mail is delivered, and no second one is wanted
	return nil
}
