// The verbs that need torch; one file each.
#pragma once

namespace muster::cli {

int convert(int argc, char** argv);
int inspect(int argc, char** argv);
int probe(int argc, char** argv);
int rehearse(int argc, char** argv);
int sample(int argc, char** argv);
int train(int argc, char** argv);
int verify(int argc, char** argv);

}  // namespace muster::cli
