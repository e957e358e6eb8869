// Command sign signs a file with the key of minisign that BEE_SIGNING_KEY names. The password
// of the key is in BEE_SIGNING_PASSWORD.
//
//	go run ./hack/sign                 print the public key
//	go run ./hack/sign FILE COMMENT    write FILE.minisig; the signature covers COMMENT too
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"aead.dev/minisign"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sign:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	key, err := privateKey()
	if err != nil {
		return fmt.Errorf("read the key that BEE_SIGNING_KEY names, with the password in BEE_SIGNING_PASSWORD: %w", err)
	}
	public, is := key.Public().(minisign.PublicKey)
	switch {
	case !is:
		return errors.New("the key has no public key of minisign")
	case len(args) == 0:
		fmt.Println(public.String())
		return nil
	case len(args) != 2:
		return errors.New("usage: sign [FILE COMMENT]")
	}
	return sign(key, args[0], args[1])
}

// privateKey reads the key, which may have a password.
func privateKey() (key minisign.PrivateKey, err error) {
	text, err := os.ReadFile(os.Getenv("BEE_SIGNING_KEY"))
	switch {
	case err != nil:
	case minisign.IsEncrypted(text):
		key, err = minisign.DecryptKey(os.Getenv("BEE_SIGNING_PASSWORD"), text)
	default:
		err = key.UnmarshalText(text)
	}
	return key, err
}

// sign writes a signature of the digest of a file, as minisign does by default.
func sign(key minisign.PrivateKey, path, comment string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := minisign.NewReader(f)
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	return os.WriteFile(path+".minisig", r.SignWithComments(key, comment, "signature of a release of bee"), 0o644)
}
