#include "cli/verb.h"

#include "base/error.h"
#include "base/log.h"

namespace muster::cli {

int guarded(const char* verb, const std::function<int()>& body) {
  const Log log(std::string("muster ") + verb);
  try {
    return body();
  } catch (const UserError& error) {
    for (const Problem& problem : error.problems()) log.error("{}", to_string(problem));
    return 2;
  } catch (const Bug& error) {
    log.error("this is a bug in muster: {}", error.what());
    return 70;
  } catch (const WorldError& error) {
    log.error("{}", error.what());
    return error.kind() == WorldError::Kind::fenced ? kExitFenced : 1;
  } catch (const std::exception& error) {
    // torch appends its own stack: the first line says what happened.
    const std::string_view what = error.what();
    log.error("{}", what.substr(0, what.find("\nException raised from")));
    return 1;
  }
}

}  // namespace muster::cli
