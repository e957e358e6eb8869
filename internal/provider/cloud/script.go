package cloud

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

//go:embed start.sh
var startScript string

// watchScript is what the guard does besides where the cloud announces something.
//
//go:embed watch.sh
var watchScript string

// mostScript is what clouds take as user data.
const mostScript = 16 << 10

// keyForm is the form of a public key of OpenSSH.
var keyForm = regexp.MustCompile(`^(ssh-ed25519|ecdsa-sha2-nistp256) [A-Za-z0-9+/]+=*$`)

// publicKey returns a public key without its comment.
func publicKey(text string) (string, error) {
	words := strings.Fields(text)
	if len(words) < 2 || !keyForm.MatchString(words[0]+" "+words[1]) {
		return "", &core.Error{Kind: core.Invalid, Op: "read the key", Object: core.Printable(strings.TrimSpace(text), 80), Err: errors.New("it is no public key of OpenSSH"), Remedy: core.RemedyFault}
	}
	return words[0] + " " + words[1], nil
}

// script returns the start script of the machines of a request. They end themselves at their expiry, and while their
// files are fetched at the last moment. They watch for what the cloud announces.
func (p *provider) script(rec *record, hostKey, loginKey string, last time.Time) (string, error) {
	return script(rec.Offer.User, hostKey, loginKey, p.s.Notice, rec.Expires, last)
}

func script(user, hostKey, loginKey, notice string, expires, last time.Time) (string, error) {
	if !core.IsAccount(user) {
		return "", &core.Error{Kind: core.Invalid, Op: "use login user", Object: user, Err: errors.New("it is no name of an account"), Remedy: "Check `user:` at the site."}
	}
	watch := ""
	if notice != "" {
		watch = strings.Replace(strings.TrimSpace(watchScript), "@NOTICE@", strings.TrimSpace(notice), 1)
	}
	text := strings.NewReplacer(
		"@EXPIRES@", strconv.FormatInt(expires.Unix(), 10), "@LAST@", strconv.FormatInt(last.Unix(), 10), "@HOSTKEY@", strings.TrimSpace(hostKey), "@LOGINKEY@", loginKey, "@WATCH@", watch, "@USER@", user,
	).Replace(startScript)
	if len(text) > mostScript {
		return "", fmt.Errorf("the start script has %d bytes, expected %d at most", len(text), mostScript)
	}
	return text, nil
}
