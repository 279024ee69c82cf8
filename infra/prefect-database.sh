#!/usr/bin/env bash
# A PostgreSQL database for a Prefect server that several people share: installs PostgreSQL where it is missing, makes
# the role and the database, and writes how to reach them to a file that only its owner can read.
# For Debian 12 or a relative of it, as root:   infra/prefect-database.sh /etc/microagg/prefect-server.env
set -euo pipefail

file="${1:?name the environment file to write, such as /etc/microagg/prefect-server.env}"
name=prefect

as_postgres() { runuser -u postgres -- psql --no-psqlrc --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 "$@"; }

if ! command -v pg_lsclusters >/dev/null; then
  apt-get update
  apt-get install --yes --no-install-recommends postgresql
fi
service postgresql start
port="$(pg_lsclusters --no-header | awk '$4 ~ /^online/ {print $3; exit}')"
for _ in $(seq 60); do
  runuser -u postgres -- pg_isready --quiet --port "$port" && break
  sleep 1
done

# A second call changes the password, and with it the file; the data stay.
password="$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"
if [[ -z "$(as_postgres --port "$port" --command "SELECT 1 FROM pg_roles WHERE rolname = '$name'")" ]]; then
  as_postgres --port "$port" --command "CREATE ROLE $name LOGIN"
fi
# Through standard input, because everyone on the machine can read a command line.
as_postgres --port "$port" <<<"ALTER ROLE $name PASSWORD '$password'"
if [[ -z "$(as_postgres --port "$port" --command "SELECT 1 FROM pg_database WHERE datname = '$name'")" ]]; then
  as_postgres --port "$port" --command "CREATE DATABASE $name OWNER $name"
fi

install -D --mode 600 /dev/stdin "$file" <<EOF
PREFECT_SERVER_DATABASE_CONNECTION_URL=postgresql+asyncpg://$name:$password@127.0.0.1:$port/$name
PREFECT_SERVER_ANALYTICS_ENABLED=false
DO_NOT_TRACK=1
EOF
echo "the database $name is ready on port $port; start the server with the environment in $file"
