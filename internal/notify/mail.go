package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// mail sends a message by the sendmail program of this machine, which every mail server
// has. It keeps the message where the next server does not answer.
func mail(ctx context.Context, to string, text []byte) error {
	program, err := sendmail()
	if err != nil {
		return err
	}
	return command(ctx, "/", nil, text, program, "-i", "--", to)
}

// sendmail finds the program, which is in no PATH of users on some systems.
func sendmail() (string, error) {
	if program, err := exec.LookPath("sendmail"); err == nil && filepath.IsAbs(program) {
		return program, nil
	}
	for _, program := range []string{"/usr/sbin/sendmail", "/usr/lib/sendmail"} {
		if _, err := os.Stat(program); err == nil {
			return program, nil
		}
	}
	return "", errors.New("this machine has no program sendmail: install one, such as msmtp-mta, or use `command:` or `webhook:`")
}

// maxSubject bounds a subject, in bytes.
const maxSubject = 200

// message is a mail about an event. No text of a job can add a line to its head, as the
// subject is one encoded word, and the body is encoded. Without from, the program that takes
// the mail adds the sender.
func message(from, to string, run state.Run, id string, e notification, text string) []byte {
	var b bytes.Buffer
	subject := strings.ReplaceAll(core.Printable(fmt.Sprintf("bee: run %s (%s): %s, %s", run.Name, run.ID, e.word, run.State), maxSubject), "\n", " ")
	head := func(name, value string) { fmt.Fprintf(&b, "%s: %s\n", name, value) }
	if from != "" {
		head("From", from)
	}
	head("To", to)
	head("Subject", mime.QEncoding.Encode("utf-8", subject))
	head("Date", time.Now().Format(time.RFC1123Z))
	head("Message-ID", "<"+id+"@bee.invalid>")
	head("Auto-Submitted", "auto-generated")
	head("MIME-Version", "1.0")
	head("Content-Type", "text/plain; charset=utf-8")
	head("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\n")
	w := quotedprintable.NewWriter(&b)
	core.BestEffort(w.Write([]byte(text))) // the buffer takes all
	w.Close()
	return bytes.ReplaceAll(b.Bytes(), []byte("\r\n"), []byte("\n")) // as programs of this machine have lines
}
