package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// Bounds of one try.
const (
	webhookTime = 30 * time.Second
	commandTime = time.Minute
	// maxAnswer is how much of an answer, or of what a command prints, is kept.
	maxAnswer = 2 << 10
)

// nameOf names a receiver in logs and in the history. It has no path of an address, which
// may be a secret.
func nameOf(r Receiver) string {
	switch {
	case r.Command != "":
		return "the command of `notify:`"
	case r.Mail != "":
		return r.Mail
	}
	if u, err := url.Parse(r.Webhook); err == nil {
		return "the webhook at " + u.Host
	}
	return "the webhook"
}

// send sends one notification once.
func (n *Notifier) send(ctx context.Context, r Receiver, run state.Run, e notification) error {
	id := n.Run + "-" + strconv.FormatInt(e.Seq, 10)
	if r.Mail != "" {
		text, err := n.Text(ctx, run)
		if err != nil {
			return err
		}
		if r.SMTP != nil {
			return n.submitMail(ctx, r, run, id, e, text)
		}
		return mail(ctx, r.Mail, message("", r.Mail, run, id, e, text))
	}
	body, err := n.Body(ctx, run)
	if err != nil {
		return err
	}
	if r.Command != "" {
		env := []string{"BEE_EVENT=" + e.word, "BEE_EVENT_ID=" + id, "BEE_RUN=" + run.ID, "BEE_NAME=" + strings.ReplaceAll(run.Name, "\x00", ""), "BEE_STATE=" + string(run.State)}
		return command(ctx, r.Dir, env, body, "/bin/sh", "-c", r.Command)
	}
	key := ""
	if r.Key != nil {
		if key, err = n.Secret(ctx, *r.Key); err != nil {
			return fmt.Errorf("read the key of %s: %w", nameOf(r), err)
		}
		if key == "" {
			return fmt.Errorf("the key of %s is empty", nameOf(r))
		}
	}
	return webhook(ctx, r.Webhook, key, id, e.word, body)
}

// webhook posts a body, authenticated as https://www.standardwebhooks.com describes. No
// redirect is followed: the body is for the address that the user wrote.
func webhook(ctx context.Context, address, key, id, word string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, webhookTime)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return withoutAddress(err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("User-Agent", "bee")
	q.Header.Set("Bee-Event", word)
	q.Header.Set("webhook-id", id)
	q.Header.Set("webhook-timestamp", at)
	if key != "" {
		q.Header.Set("webhook-signature", "v1,"+signature(key, id+"."+at+".", body))
	}
	transport, is := http.DefaultTransport.(*http.Transport)
	if !is {
		return errors.New("the HTTP transport of this program is another one")
	}
	transport = transport.Clone() // with the proxy of the environment
	transport.MaxResponseHeaderBytes, transport.DisableKeepAlives = 64<<10, true
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(q)
	if err != nil {
		return withoutAddress(err)
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	switch {
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		to, err := answer.Location()
		if err != nil {
			return fmt.Errorf("it answers %d, a redirect to nowhere", answer.StatusCode)
		}
		return fmt.Errorf("it redirects to %s, which is not followed: write the final address into `webhook:`", core.Printable(to.Host, maxAnswer))
	case answer.StatusCode >= 300 || answer.StatusCode < 200:
		return fmt.Errorf("it answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	return nil
}

// withoutAddress is an error without the address, whose path may be a secret.
func withoutAddress(err error) error {
	if u, is := errors.AsType[*url.Error](err); is {
		return u.Err
	}
	return err
}

// signature authenticates a body. A key that begins with whsec_ is base64, as that standard
// writes keys.
func signature(key, head string, body []byte) string {
	raw := []byte(key)
	if rest, is := strings.CutPrefix(key, "whsec_"); is {
		if decoded, err := base64.StdEncoding.DecodeString(rest); err == nil {
			raw = decoded
		}
	}
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte(head))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// command runs a program with an input. Its processes end with it.
func command(ctx context.Context, dir string, env []string, input []byte, program string, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTime, fmt.Errorf("it took longer than %s", commandTime))
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	var printed firstBytes
	c.Dir, c.Env, c.Stdin, c.Stdout, c.Stderr = dir, append(os.Environ(), env...), bytes.NewReader(input), &printed, &printed
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	err := c.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay): // a child of it holds its output
		return nil
	}
	if text := strings.TrimSpace(core.Printable(printed.String(), maxAnswer)); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// firstBytes keeps the beginning of what is written to it.
type firstBytes struct{ bytes.Buffer }

// Write implements io.Writer.
func (f *firstBytes) Write(piece []byte) (int, error) {
	f.Buffer.Write(piece[:min(len(piece), max(maxAnswer-f.Len(), 0))])
	return len(piece), nil
}
