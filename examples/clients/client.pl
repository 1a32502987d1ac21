#!/usr/bin/perl
# A complete Headgate client in Perl, with core modules only. See README.md in this folder.
#
#   client.pl lock RESOURCE COMMAND...   run a command while holding an exclusive lock
#   client.pl work JOB COMMAND...        run a command on each chunk of a job, until nothing is left
use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP;
use POSIX qw(:sys_wait_h);
use Sys::Hostname;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC sleep);

my $server   = $ENV{HEADGATE_SERVER}    or die "HEADGATE_SERVER is not set\n";
my $secret   = $ENV{HEADGATE_API_TOKEN} or die "HEADGATE_API_TOKEN is not set\n";
my $name     = $ENV{HEADGATE_CLIENT}   || getpwuid($<) . '@' . hostname();
utf8::decode($name);
my $lease    = $ENV{HEADGATE_LEASE}    || 30;    # seconds; renewed three times as often
my $patience = $ENV{HEADGATE_PATIENCE} || 60;    # seconds for which a request is retried while the service is away
my ($REFUSED, $LOST, $UNAVAILABLE) = (75, 76, 69);
my ($running, $stopped);
binmode STDERR, ':encoding(UTF-8)';

# A client that is asked to stop stops its command, and then releases its lock or reports the interruption.
$SIG{$_} = sub { $stopped = 1; kill TERM => $running if $running } for qw(INT TERM HUP);

# Each attempt has a deadline of its own: 10 seconds.
my $http = HTTP::Tiny->new(timeout => 10, default_headers => { Authorization => "Bearer $secret" });

sub now { return clock_gettime(CLOCK_MONOTONIC) }

sub say_error { print STDERR "client.pl: @_\n"; return }

# Sends a request, and again while the service is away, for so many seconds at most. Returns the status, the document
# and the number of attempts; status 0: no answer. All repeats carry one Idempotency-Key: they have no second effect.
sub ask {
    my ($method, $path, $body, $seconds) = @_;
    my $until = now() + ($seconds // $patience);
    my %sent  = (headers => { 'Idempotency-Key' => random_key(), 'Content-Type' => 'application/json' });
    $sent{content} = encode_json($body) if $body;
    for (my $tries = 1;; $tries++) {
        my $answer   = $http->request($method, "$server$path", \%sent);
        my $document = eval { decode_json($answer->{content}) } || {};
        my $status   = $answer->{status} == 599 ? 0 : $answer->{status};    # 599: it could not be reached.
        my $type     = $document->{type} // '';
        # 503: its store does not answer. key-in-use: the first attempt, whose answer was lost, is still running.
        my $again = $status == 0 || $status == 429 || $status == 503 || $type eq 'urn:headgate:key-in-use';
        return ($status, $document, $tries) if !$again;
        my $pause = $answer->{headers}{'retry-after'} || 1;
        return (0, { detail => 'the service does not answer' }, $tries) if now() + $pause > $until;
        sleep $pause;
    }
}

sub random_key {
    open my $source, '<:raw', '/dev/urandom' or die "no random numbers: $!\n";
    read $source, my $bytes, 16;
    return unpack 'H*', $bytes;
}

sub escaped {
    my $text = shift;
    utf8::encode($text);
    $text =~ s/([^A-Za-z0-9_.~-])/sprintf '%%%02X', ord $1/ge;
    return $text;
}

# Runs the command while its lease is renewed. Returns its exit code; undef if the lease was lost.
sub hold {
    my ($path, $token, @command) = @_;
    my $renewed = now();
    $running = fork // die "fork: $!\n";
    if (!$running) {
        $SIG{$_} = 'DEFAULT' for qw(INT TERM HUP);
        exec { $command[0] } @command or exit 127;
    }
    my ($lost, $next) = (0, $renewed + $lease / 3);
    while (waitpid($running, WNOHANG) == 0) {
        sleep 0.05;
        next if $lost || now() < $next;
        my $asked = now();
        my ($status, $found) = ask('POST', $path, { token => $token + 0, lease => $lease + 0 }, $renewed + $lease - $asked);
        if ($status == 200) {
            $renewed = $asked;    # The lease counts from before the request: never later than the service counts.
            $next    = $asked + $lease / 3;
        }
        else {
            $lost = 1;
            say_error("the lease was lost: $found->{detail}");
            kill TERM => $running;
        }
    }
    undef $running;
    return if $lost;
    return $? & 127 ? 128 + ($? & 127) : $? >> 8;
}

sub lock_and_run {
    my ($resource, @command) = @_;
    my ($status, $found) = ask('POST', '/v1/locks', { client => $name, resource => $resource, lease => $lease + 0 });
    if ($status != 201) {
        say_error($found->{detail});
        return $status == 409 ? $REFUSED : $status == 0 ? $UNAVAILABLE : 2;
    }
    my ($id, $token) = @{ $found->{locks}[0] }{qw(id token)};
    $ENV{HEADGATE_TOKEN} = $token;
    my $code = hold("/v1/locks/$id/renew", $token, @command);
    return $LOST if !defined $code;    # It is not ours any more: nothing to release.
    my ($released, $problem, $tries) = ask('DELETE', "/v1/locks/$id?token=$token");
    say_error('not released: the lease will expire') if $released == 0;
    # A repeat finds nothing to release if the answer to the first attempt was lost.
    if ($released == 409 && $tries == 1) {
        say_error($problem->{detail});
        return $LOST;
    }
    return $code;
}

sub work {
    my ($job, @command) = @_;
    my $result = 0;
    while (1) {
        my ($status, $claim) = ask('POST', '/v1/jobs/' . escaped($job) . '/next', { worker => $name, lease => $lease + 0 });
        return $result if $status == 204;    # Nothing left to do.
        if ($status != 200) {
            say_error($claim->{detail});
            return $status == 0 ? $UNAVAILABLE : 2;
        }
        my ($dataid, $token) = @{$claim}{qw(dataid token)};
        my $chunk = '/v1/jobs/' . escaped($job) . '/chunks/' . escaped($dataid);
        utf8::encode(my $bytes = $dataid);    # Variables are bytes.
        @ENV{qw(HEADGATE_DATAID HEADGATE_TOKEN)} = ($bytes, $token);
        my $code = hold("$chunk/heartbeat", $token, @command);
        if (!defined $code) {
            $result = 1;
            next;
        }
        my ($outcome, $message) =
            $stopped ? ('interrupt', 'the worker was stopped')    # No failure: the chunk is claimable again at once.
          : $code    ? ('fail', "exit code $code")
          :            ('success');
        $result = 1 if $outcome eq 'fail';
        my ($reported, $problem) =
          ask('POST', "$chunk/$outcome", { token => $token + 0, $message ? (message => $message) : () });
        if ($reported != 204) {                                   # Stale: somebody else has it.
            say_error("$dataid: $problem->{detail}");
            return $UNAVAILABLE if $reported == 0;
            $result = 1;
        }
        return 143 if $stopped;
    }
}

my ($what, @words) = @ARGV;
my %acts = (lock => \&lock_and_run, work => \&work);
if (@words < 2 || !$acts{$what}) {
    say_error('usage: client.pl lock RESOURCE COMMAND... | work JOB COMMAND...');
    exit 2;
}
utf8::decode($words[0]);    # Arguments are bytes, too.
exit $acts{$what}->(@words);
