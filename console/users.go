package console

import (
	"bufio"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-outbox/outbox"
)

// A User comes in with a token or a password, of which only a hash is kept.
type User struct {
	Name string
	Role Role
	// Tenants is as in Principal.
	Tenants []string
	// Secret is what NewToken or HashPassword returned.
	Secret string
}

const (
	tokenScheme    = "sha256"
	passwordScheme = "pbkdf2-sha256"

	// rounds is what OWASP recommends for PBKDF2 with SHA-256.
	rounds    = 600_000
	maxRounds = 10_000_000
)

// stranger makes the password of a user who does not exist as slow as any other.
var stranger = &User{Secret: fmt.Sprintf("%s:%d:%s:%s", passwordScheme, rounds,
	base64.RawStdEncoding.EncodeToString(make([]byte, 16)), base64.RawStdEncoding.EncodeToString(make([]byte, 32)))}

// NewToken makes a token of 256 random bits and the secret to keep of it. A hash that
// is fast to compute is enough for one that cannot be guessed.
func NewToken() (token, secret string) {
	random := make([]byte, 32)
	rand.Read(random)
	token = "obx_" + base64.RawURLEncoding.EncodeToString(random)
	sum := sha256.Sum256([]byte(token))
	return token, tokenScheme + ":" + hex.EncodeToString(sum[:])
}

// HashPassword returns the secret to keep of a password.
func HashPassword(password string) (string, error) {
	if len(password) < 12 || len(password) > maxSecrets {
		return "", outbox.ErrInvalidConfig.With("password", "must have at least 12 characters")
	}
	salt := make([]byte, 16)
	rand.Read(salt)
	sum, err := pbkdf2.Key(sha256.New, password, salt, rounds, 32)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s:%d:%s:%s", passwordScheme, rounds,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum)), nil
}

func (u *User) isToken() bool { return strings.HasPrefix(u.Secret, tokenScheme+":") }

func (u *User) matchesToken(token string) bool {
	want, err := hex.DecodeString(strings.TrimPrefix(u.Secret, tokenScheme+":"))
	if err != nil || len(token) > maxSecrets {
		return false
	}
	got := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(got[:], want) == 1
}

func (u *User) matchesPassword(password string) bool {
	n, salt, want, err := parsePassword(u.Secret)
	if err != nil || len(password) > maxSecrets {
		return false
	}
	got, err := pbkdf2.Key(sha256.New, password, salt, n, len(want))
	return err == nil && subtle.ConstantTimeCompare(got, want) == 1
}

func parsePassword(secret string) (n int, salt, sum []byte, err error) {
	parts := strings.Split(secret, ":")
	if len(parts) != 4 || parts[0] != passwordScheme {
		return 0, nil, nil, errors.New("not a hashed secret")
	}
	n, err = strconv.Atoi(parts[1])
	salt, saltErr := base64.RawStdEncoding.DecodeString(parts[2])
	sum, sumErr := base64.RawStdEncoding.DecodeString(parts[3])
	if err := errors.Join(err, saltErr, sumErr); err != nil {
		return 0, nil, nil, err
	}
	if n < rounds || n > maxRounds || len(salt) < 8 || len(sum) != 32 {
		return 0, nil, nil, errors.New("not a strong enough hash")
	}
	return n, salt, sum, nil
}

func checkUsers(field string, users []User, secrets bool) error {
	var errs []error
	for i, u := range users {
		field := fmt.Sprintf("%s[%d]", field, i)
		if u.Name == "" || len(u.Name) > 100 || plain(u.Name) != u.Name {
			errs = append(errs, outbox.ErrInvalidConfig.With(field+".Name", "is required, without control characters"))
		}
		if u.Role.rank() == 0 {
			errs = append(errs, outbox.ErrInvalidConfig.With(field+".Role", "must be viewer, operator or admin"))
		}
		if secrets && !u.hashed() {
			errs = append(errs, outbox.ErrInvalidConfig.With(field+".Secret", "must be what NewToken or HashPassword returned"))
		}
	}
	return errors.Join(errs...)
}

func (u *User) hashed() bool {
	if u.isToken() {
		sum, err := hex.DecodeString(strings.TrimPrefix(u.Secret, tokenScheme+":"))
		return err == nil && len(sum) == sha256.Size
	}
	_, _, _, err := parsePassword(u.Secret)
	return err == nil
}

// String is the line of a users file.
func (u User) String() string {
	line := u.Name + " " + string(u.Role) + " " + u.Secret
	if len(u.Tenants) > 0 {
		line += " " + strings.Join(u.Tenants, ",")
	}
	return line
}

// ParseUsers reads a users file: one user a line as `name role secret [tenant,tenant]`;
// empty lines and lines that begin with # are skipped. Its errors name the line and
// never quote a secret.
func ParseUsers(r io.Reader) ([]User, error) {
	var users []User
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		fields := strings.Fields(text)
		if len(fields) < 3 || len(fields) > 4 {
			return nil, outbox.ErrInvalidConfig.With(fmt.Sprintf("line %d", n), "want: name role secret [tenant,tenant]")
		}
		u := User{Name: fields[0], Role: Role(fields[1]), Secret: fields[2]}
		if len(fields) == 4 {
			u.Tenants = strings.Split(fields[3], ",")
		}
		if err := checkUsers("user", []User{u}, true); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		users = append(users, u)
	}
	return users, lines.Err()
}
