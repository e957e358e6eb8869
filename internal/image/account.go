package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/moby/sys/user"
)

// maxAccounts bounds what is read of an image's passwd and group, in bytes.
const maxAccounts = 4 << 20

// Account finds whom an image's USER means, by the image's own accounts, as docker
// does: a name or a number, and a group after a colon. nil: it names nobody, or root.
// An Invalid error says that the image does not know the name.
func (s *Store) Account(ctx context.Context, i core.Image) (*core.Account, error) {
	if i.Config.User == "" {
		return nil, nil
	}
	tree, release, err := s.Tree(ctx, i.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	return accountIn(tree, i.Config.User)
}

func accountIn(tree, of string) (*core.Account, error) {
	passwd, err := openInside(tree, "/etc/passwd")
	if err != nil {
		return nil, err
	}
	defer passwd.Close()
	group, err := openInside(tree, "/etc/group")
	if err != nil {
		return nil, err
	}
	defer group.Close()
	found, err := user.GetExecUser(of, nil, io.LimitReader(passwd, maxAccounts), io.LimitReader(group, maxAccounts))
	if err != nil {
		return nil, &core.Error{
			Kind: core.Invalid, Op: "find the image's USER", Object: of, Err: err,
			Remedy: "Build the image with that account, or set `user: caller` to have your own uid inside.",
		}
	}
	if found.Uid == 0 {
		return nil, nil
	}
	account := &core.Account{UID: found.Uid, GID: found.Gid, Home: found.Home}
	if _, err := passwd.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	named, err := user.ParsePasswdFilter(io.LimitReader(passwd, maxAccounts), func(u user.User) bool { return u.Uid == found.Uid })
	if err != nil {
		return nil, fmt.Errorf("read the image's accounts: %w", err)
	}
	if len(named) > 0 {
		account.Name = named[0].Name
	}
	return account, nil
}

// openInside opens a file of a tree as a process inside would, links followed; one
// that is not there is an empty one.
func openInside(tree, path string) (*os.File, error) {
	p, err := securejoin.SecureJoin(tree, path)
	if err != nil {
		return nil, err
	}
	f, err := fsutil.OpenPlain(p)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return os.Open(os.DevNull)
	case errors.Is(err, fsutil.ErrNotPlain):
		err = &core.Error{Kind: core.Invalid, Op: "find the image's USER in", Object: path, Err: errors.New("that is no file"), Remedy: "Build the image again, or set `user: caller` to have your own uid inside."}
	}
	return f, err
}
