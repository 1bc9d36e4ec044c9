/* SPDX-License-Identifier: Apache-2.0 */
/* A camera's loop: while one frame is computed, the next is made ready; better kernels are picked up on the way.
 * c++ -std=c++11 stream.cpp $(pkg-config --cflags --libs hone) -pthread -o stream; ./stream model.onnx [frames] */
#include <hone.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

static void make_frame(std::vector<float> &to, int number)
{
	for (size_t i = 0; i < to.size(); i++)
		to[i] = static_cast<float>((i * 31 + static_cast<size_t>(number) * 17) % 255) / 255.0f;
}

/* Frames [0, n); returns the sum of the first output's first elements. */
static double stream(hone::model &m, int n)
{
	hone_tensor x = m.input_info(0), y = m.output_info(0);
	if (x.dtype != HONE_F32 || y.dtype != HONE_F32 || !y.bytes)
		throw std::runtime_error("the first input and output must be f32");
	std::vector<float> frame[2] = {std::vector<float>(x.bytes / sizeof(float)),
				       std::vector<float>(x.bytes / sizeof(float))};
	const float *scores = m.output<float>(0);
	double sum = 0;
	make_frame(frame[0], 0);
	for (int i = 0; i < n; i++) {
		m.bind_input(0, frame[i % 2].data(), x.bytes);
		m.run_async();
		make_frame(frame[(i + 1) % 2], i + 1);
		m.wait();
		sum += scores[0];
	}
	return sum;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		std::fprintf(stderr, "usage: stream MODEL [FRAMES]\n");
		return 2;
	}
	try {
		hone::handle h;
		hone::model m(h, argv[1]);
		std::atomic<bool> stop(false);
		std::thread refresher([&] {
			while (!stop) {
				hone_refresh(m.get()); /* the old kernels go on where this fails */
				std::this_thread::sleep_for(std::chrono::milliseconds(100));
			}
		});
		double sum = 0;
		try {
			sum = stream(m, argc > 2 ? std::atoi(argv[2]) : 100);
		} catch (...) {
			stop = true;
			refresher.join();
			throw;
		}
		stop = true;
		refresher.join();
		std::printf("%g\n", sum);
	} catch (const std::exception &e) {
		std::fprintf(stderr, "stream: %s\n", e.what());
		return 1;
	}
	return 0;
}
