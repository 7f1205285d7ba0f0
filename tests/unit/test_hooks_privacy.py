"""What the hooks of coding agents leave out of what they send."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.hooks.privacy import Rules, cleaned

LETTERS = "aB3dEfGh" * 6


@pytest.mark.parametrize(
    "text",
    [
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "MY_APP_API_KEY=abcdef12345", "PGPASSWORD=hunter", "DB_PASS=s3cret",
        "export GITHUB_ACCESS_TOKEN=abcd-efgh", "clientSecret: 'abc def'", "SECRET_KEY = 'django-insecure'",
        "authToken=abc123def",
        "mysql -u root -pHunter2 db", "curl -u ann:hunter2 https://x", "psql --password hunter2", "--token=abcdef",
        "Authorization: Basic YWxhZGRpbg==", "Cookie: session=abcdef", "the password is: hunter22", "my password is hunter22x",
        "rediss://:pw123@host/0", "postgres://u:p@ss@host/db", "postgres://u:p@host", "password=pa$$word123",
        f"xapp-1-{LETTERS}", f"ya29.{LETTERS}", f"GOCSPX-{LETTERS}", f"whsec_{LETTERS}", f"gsk_{LETTERS}", f"hvs.{LETTERS}",
        f"sk-proj-{LETTERS}", f"ghp_{LETTERS}", f"dckr_pat_{LETTERS}", "123456789:AAF" + "a" * 32,
        f"https://hooks.slack.com/services/T0/B0/{LETTERS}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{LETTERS}\n{LETTERS}", f"AccountKey={LETTERS};x",
    ],
)  # fmt: skip
def test_a_credential_is_left_out(text: str) -> None:
    shown = cleaned(f"Use this: {text}", 1000)
    assert "[secret]" in shown
    for part in (
        "unter",
        "s3cret",
        "abcd",
        "abc123",
        "wJalr",
        "django",
        "YWx",
        "pw123",
        "p@",
        "pa$$",
        LETTERS[:20],
        "a" * 32,
    ):
        assert part not in shown


CREDENTIALS = [
    'password={L}', 'PASSWORD={L}', 'pwd={L}', 'The password is "{L}"', 'passphrase: {L}', 'export DB_PASS={L}',
    'export X_TOKEN={L}', 'mysql -u root -p{L} shop', 'mysqldump --password={L} shop',
    'psql postgresql://app:{L}@db/shop', 'redis-cli -a {L} ping', 'mongodb+srv://app:{L}@cluster0.mongodb.net/shop',
    'mysql://root:{L}@localhost/shop', 'ftp://ann:{L}@files.example.com',
    'AccountKey={S}{S}{S}{S}{S}ab==;EndpointSuffix=core.windows.net', 'curl -u ann:{L} https://api.example.com',
    "curl -H 'Authorization: Bearer {S}{S}' https://x", 'Authorization: Basic dXNlcjpodW50ZXIy',
    'Authorization: Bearer {L}{L}', 'x-auth-token: {S}{S}', 'Set-Cookie: sessionid={S}{S}; Path=/',
    'deploy --secret-key {L}', 'tool --password={S} run', 'tool --api-key={L}', 'docker login --password {L}',
    "sshpass -p '{S}' scp a b", 'openssl enc -aes-256-cbc -k {L} -in a', 'htpasswd -b .htpasswd ann {L}',
    'net use z: \\\\srv\\share {L} /user:ann', 'ldapsearch -D cn=admin -w {L} -b dc=x',
    'helm install x --set auth.password={L}', 'az login --service-principal -u app -p {S}{S} --tenant t',
    'apiKey = "{S}"', 'client_secret={S}', 'secret_key_base: {S}{S}{S}', 'access_token={S}{S}',
    '"auth_token": "{S}"', 'encryption_key={S}{S}', 'machine api.example.com login ann password {L}',
    '//npm.example.com/:_authToken={S}{S}', "ALTER USER app WITH PASSWORD '{L}'", "--header 'PRIVATE-TOKEN: {S}'",
    'user ann, pw {S}', 'contraseña: {L}', 'the PIN is 4711 and the password {S}', 'wifi password - {L}',
    'ENV API_SECRET {L}', 'git clone https://oauth2:{S}{S}@gitlab.com/a/b',
    'https://x.example.com/cb?access_token={L}&state=1', 'password={L} and go on', 'password = {L}',
    'let password = "{L}";', 'the admin password is: {L}', 'pass: {S}', 'user=ann pass={L}',
    'export DATABASE_PASSWORD={L}', "export STRIPE_KEY='{S}'", 'export MY_APP_SECRET={L}', 'API_TOKEN={S} npm start',
    'declare -x VAULT_TOKEN="{S}"', 'ENV DB_PASSWORD={L}', '- POSTGRES_PASSWORD={L}', 'MYSQL_ROOT_PASSWORD: "{L}"',
    'docker run -e TOKEN={S}{S} x', 'mysql -uroot -p{L}', 'mysqlimport -p{L} shop a.txt',
    'pg_dump "host=db user=app password={L}"', 'pg_dump --dbname=postgresql://app:{L}@127.0.0.1:5432/shop',
    'mongo -u ann -p {L} shop', "redis-cli -h x -a '{L}'", 'sqlcmd -S db -U sa -P {L}',
    'influx -username ann -password {L}', "curl -u 'ann:{L}' x", 'curl --proxy-user ann:{L} x',
    'wget --http-password={L} x', 'curl -H "X-Api-Key: {L}" x', 'curl -H "Authorization: token {S}" x',
    'authorization: Bearer {S}', "'Authorization': 'Bearer {S}{S}'",
    'git remote add o https://{S}{S}@github.com/a/b.git', 'npm config set //npm.example.com/:_authToken {S}{S}',
    'twine upload -u ann -p {L} dist/*', 'heroku config:set SECRET_KEY={L}',
    'kubectl config set-credentials ann --password={L}', "terraform apply -var 'db_password={L}'",
    'vault kv put secret/db password={L}', 'az login -u ann -p {L}',
    'doctl auth init -t dop_v1_a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4',
    'useradd -p {L} ann', 'keytool -storepass {L} -keypass {L}', '7z a -p{L} a.7z b', 'ssh-keygen -N {L} -f k',
    'cmdkey /add:x /user:ann /pass:{L}', 'xfreerdp /u:ann /p:{L} /v:h',
    "New-Object PSCredential('ann', (ConvertTo-SecureString '{L}' -AsPlainText))", '"password":"{L}"',
    "'secret' => '{L}'", 'secretAccessKey: {S}{S}', 'spring.datasource.password={L}', 'jwt_secret: {L}',
    'signing_secret: {S}{S}', 'secret: {S}', 'consumer_secret={S}{S}', 'Data Source=db;User ID=sa;Pwd={L}',
    'Endpoint=sb://x/;SharedAccessKeyName=k;SharedAccessKey={S}{S}=', 'requirepass {L}', 'wpa_passphrase={L}',
    'Le mot de passe est {S}', 'Kennwort: {L}', 'credentials: ann / {S}', 'OTP secret JBSWY3DPEHPK3PXP',
    'https://example.com/?token={L}', 'wss://x/?auth={S}', 'glptt-0123456789abcdef0123456789abcdef01234567',
    'sq0atp-0123456789abcdefghijkl', 'NRAK-0123456789ABCDEFGHIJKLMNOPQ',
    'pplx-0123456789abcdef0123456789abcdef0123456789abcdef', 'LTAI5tAbCdEfGhIjKlMnOpQr',
    'nfp_0123456789abcdefghijABCDEFGHIJ012345', 'PMAK-0123456789abcdef01234567-0123456789abcdef0123456789abcdef01',
    "a <private>b <private>c</private> {L}</private> d", "a <PRIVATE >{L}</PRIVATE > b", "a <private>{L}",
    "a < private >{L}</ private > b", "a <private why='x'>{L}</private> b", "a <private\n>{L}</private\n> b",
    "a <private><private>x</private>{L} b", "a &lt;private&gt;{L}&lt;/private&gt; b", "a {L}</private> b",
    "a <private/>{L}</private> b", "a \uff1cprivate\uff1e{L}\uff1c/private\uff1e b", "a <pri\u200bvate>{L}</private> b",
]  # fmt: skip
"""{L}: a password of letters, {S}: one with digits."""


@pytest.mark.parametrize("form", CREDENTIALS)
def test_a_credential_is_known_by_the_form_of_what_stands_around_it(form: str) -> None:
    """Also one of letters alone, in command lines, settings, addresses and sentences; and what is marked as private."""
    letters, mixed = "correcthorsebattery", "Zq7vXw9LmT4bRk2y"
    shown = cleaned("See: " + form.replace("{L}", letters).replace("{S}", mixed) + " thanks", 1000)
    assert letters not in shown
    assert mixed not in shown
    assert "[secret]" in shown or "[private]" in shown


@pytest.mark.parametrize(
    "text",
    [
        "The token is expired, so the refresh token is requested", "token: Optional[str]", "password: required",
        "max_token: 4096000", "pwd: /home/me/project1", "api key = settings.api_key", "sk-learn-pipeline-with-scaler",
        "The token is stored in Vault", "rotate the API key monthly", "see https://host:8080/a@b", "ann@example.com: hello",
        "the secret of 3 good tests", "git push -u origin main", "key: value", "12:30:45 the passengers left",
        'the password is reset by mail', 'I forgot my password', 'Passwords are stored hashed', 'password=None',
        "password = os.environ['DB_PASSWORD']", 'password=${DB_PASSWORD}', 'the token is expired', 'max_tokens=4096',
        'total_tokens=532', 'api_key = get_key()', 'API_KEY=xxxxxxxx', 'password=changeme or so is a bad idea',
        'The secret is out', 'our secret santa is on Friday', 'primary key (id)', 'sort_key=name',
        'public_key.pem is in the repository', '--password-file /run/secrets/db', 'mysql -p',
        'mysql -u root -p < dump.sql', 'curl -u ann https://api.example.com',
        'Authorization: Basic is not safe without TLS', 'use Authorization: Bearer <token>',
        'https://git.example.com/x.git', 'postgresql://localhost/shop', 'postgresql://user:password@localhost/db',
        'cp -p a b', 'ssh -p 2222 host', 'ps -p 4711', 'grep -w password file',
        'commit 3f786850e387550fdab836ed7e6dc881de23001b',
        'sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', 'build 512 deployed',
        'refresh_token: string, optional', 'set the client_secret in the console', 'password_hash = bcrypt(password)',
        'def check_password(password: str) -> bool', 'password_confirmation: must match',
        'the password is the same as before', 'password is not needed', 'the password is secret',
        'pwd prints the working folder', 'pass the salt', 'tests pass: 120', 'PIN the version to 1.2',
        'credential helper: store', 'secrets.token_hex(16)', 'process.env.API_KEY', 'apiKey: process.env.API_KEY,',
        'api-key authentication is supported', 'monkey=banana', 'hockey: Fridays', 'a private repository',
        'cookie: chocolate', 'Le mot de passe est obligatoire', 'identified by their names', 'tokenizer=wordllama',
        'grant_type=client_credentials', 'authorization: required', 'password policy: strict', 'password field: hidden',
        'secret_name: db-credentials', '--secret id=mysecret,src=x', 'passphrase is asked for at boot',
        'AKIA is the prefix of AWS keys', 'ghp_ tokens are personal', 'the sum = 1234567890123456',
        'reset your password by clicking the link', 'Password: at least 8 characters', 'the password field is empty',
        'password = getpass()', 'password: process.env.PASSWORD', 'password: !vault |', 'password=%s',
        'where password = ?', 'password varchar(255)', 'users.password is nullable',
        'the password was wrong three times', 'invalid token: unexpected end', 'token = next(tokens)', 'token=token',
        'token := lexer.Next()', 'CSRF token mismatch', 'a token ring network', 'tokens per second: 45',
        'max_new_tokens=512', 'secret=False', 'kubectl create secret', 'a kubernetes secret named db',
        'the secret ingredient is cumin', 'secretariat: room 12', 'key=1', 'keys: [a, b]', 'primary_key=True',
        'API key: see 1Password', 'auth=None', 'auth token has expired', 'Basic English 101',
        'bearer token authentication', 'Authorization: none', 'cookies: yes', 'cp -a x y',
        'tar -p -xf a.tar', 'nmap -p 80,443 host', 'docker run -p 80:80 x', 'patch -p1 < a.diff',
        'mysql -h db -P 3306 -u app shop', 'mysqldump shop > a.sql', 'redis-cli -h cache ping', 'ldapsearch -x -b dc=x',
        'openssl genrsa 2048', '7z x a.7z', 'docker login registry.example.com', 'curl -X POST https://x',
        'echo hello | sudo tee a', 'sudo -S true', 'login ann', 'https://example.com/a?b=c', 'https://x/?code=404',
        'http://localhost:5432', 'see https://example.com:443/@ann', 'pass: the torch',
        'passing=12', 'bypass=true', 'boarding pass: gate 12', 'pwd', 'SSN is private', 'public class A',
        'private: true', 'std::unique_ptr<private_t>', 'figd is a tool', 'dapi calls',
        'build 7f3e2a1b9c8d', 'ISBN 978-3-16-148410-0', 'the code is 4711', 'id=abc123def456',
        'checksum: 9f86d081884c7d65', 'nonce is reused', 'hash=abc123', 'host key verification failed',
        'password rotation every 90 days', '--auth none',
        'set --password to the value of the vault',
    ],
)  # fmt: skip
def test_ordinary_words_stay(text: str) -> None:
    assert cleaned(text, 1000) == text


def test_files_are_hidden_by_any_part_of_their_path(tmp_path: Path) -> None:
    (tmp_path / ".memorydignore").write_text("\ufefffixtures/\n*.sqlite\nsrc/private\n")
    rules = Rules(str(tmp_path))
    for hidden in (
        "fixtures/a/b.json",
        "data/A.SQLITE",
        "src/private/x.py",
        ".env",
        "a/.ENV.local",
        "Secrets.yml",
        "./fixtures/x",
    ):
        assert rules.hides(hidden), hidden
    for shown in ("src/main.py", "environment.py", "private/x.py", "docs/fixtures.md"):
        assert not rules.hides(shown), shown
    for command in (
        "cat @.env",
        "x `cat .env`",
        "scp host:.env .",
        "cp {a,.env} b",
        "cat ${X:-c.sqlite}",
        "a=.env",
    ):
        assert rules.hides_in(command), command
    for everything in ("*", "/*", "**", "./*"):
        (tmp_path / ".memorydignore").write_text(everything)
        assert Rules(str(tmp_path)).everything
