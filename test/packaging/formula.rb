# Runs a Homebrew formula without Homebrew: `ruby formula.rb FORMULA SOURCE PREFIX`
# checks what it says of itself, builds it from the archive SOURCE into PREFIX and
# runs its test. It knows as much of Homebrew's language as our formula speaks;
# anything else is an error, as a misspelt word should be.
require "digest"
require "fileutils"
require "open3"
require "pathname"
require "tmpdir"

def check(condition, message)
  abort "error: the formula: #{message}" unless condition
end

class Pathname
  # What Homebrew adds: install("a", "b" => "name") copies, as in a keg.
  def install(*sources)
    mkpath
    sources.flatten.flat_map { |s| s.is_a?(Hash) ? s.to_a : [[s, File.basename(s)]] }.each do |from, name|
      check File.file?(from), "#{from} was not made"
      FileUtils.cp from, self / name
    end
    check !sources.flatten.empty?, "there is nothing to install in #{self}"
  end

  def install_symlink(links)
    mkpath
    links.each { |target, name| File.symlink target, self / name }
  end
end

class Formula
  WORDS = %i[desc homepage url sha256 license].freeze
  class << self
    attr_reader :said, :dependencies, :tested

    def inherited(formula)
      super
      formula.instance_eval { @said, @dependencies = {}, [] }
    end

    WORDS.each { |word| define_method(word) { |value| @said[word] = value } }
    def head(url, branch:) = @said[:head] = [url, branch]
    def depends_on(what) = @dependencies << what
    def on_linux = yield
    def test(&block) = @tested = block
    def version = @said[:url][%r{/v([^/]+)\.tar\.gz\z}, 1]
  end

  def initialize(prefix) = @prefix = Pathname(prefix)
  def version = self.class.version
  def bin = @prefix / "bin"
  def man1 = @prefix / "share/man/man1"
  def doc = @prefix / "share/doc/kubehsm"
  def bash_completion = @prefix / "etc/bash_completion.d"
  def zsh_completion = @prefix / "share/zsh/site-functions"
  def fish_completion = @prefix / "share/fish/vendor_completions.d"
  def std_go_args(ldflags:, output: bin / self.class.name.downcase) = ["-trimpath", "-o=#{output}", "-ldflags=#{ldflags}"]

  def system(*command)
    check Kernel.system(*command), "#{command.join(" ")} failed"
  end

  def shell_output(command, status = 0)
    output, result = Open3.capture2(command)
    check result.exitstatus == status, "#{command} exits with #{result.exitstatus}, not #{status}: #{output}"
    output
  end

  def assert_match(wanted, text)
    check wanted.is_a?(Regexp) ? wanted.match?(text) : text.include?(wanted), "#{text.inspect} lacks #{wanted.inspect}"
  end
end

formula, source, prefix = ARGV.map { |path| File.expand_path(path) }
abort "usage: ruby formula.rb FORMULA SOURCE PREFIX" unless prefix
load formula

said = Kubehsm.said
Formula::WORDS.each { |word| check said[word].is_a?(String) && !said[word].include?("__"), "#{word} is missing" }
# As `brew audit` wants it.
check said[:desc].length <= 80 && said[:desc] !~ /\A(?:an?|the)\b|\.\z/i, "a description is short, without article and full stop"
check said[:sha256] == Digest::SHA256.file(source).hexdigest, "the checksum is another file's"
check Kubehsm.dependencies.include?({ "go" => :build }), "it is built with Go"

Dir.mktmpdir do |folder|
  Dir.chdir folder
  check Kernel.system("tar", "-xzf", source, "--strip-components=1"), "the source cannot be unpacked"
  installed = Kubehsm.new(prefix)
  installed.install
  # Away from the source, as `brew test` is.
  Dir.mkdir "test-folder"
  Dir.chdir "test-folder"
  installed.instance_eval(&Kubehsm.tested)
end
%w[bin/kubehsm bin/kubectl-hsm share/man/man1/kubehsm.1.gz etc/bash_completion.d/kubehsm share/zsh/site-functions/_kubehsm
   share/fish/vendor_completions.d/kubehsm.fish share/doc/kubehsm/THIRD-PARTY].each do |file|
  check File.size?(File.join(prefix, file)), "#{file} is not installed"
end
puts "the formula installs #{Kubehsm.version} and its test passes"
